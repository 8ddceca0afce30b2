"""Means that forget: a reading weighs half as much after each half-life.

A value that held for some seconds weighs by those seconds, so the mean does not depend on how often it is
read. Until much was read, the mean is that of what was: it starts neither at 0 nor at the first reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: A mean counts when readings of so much of a half-life are in it.
LEAST = 0.2


@dataclass(frozen=True)
class Mean:
    """total: what was read, each value times its weight. weight: all weights; 1 after many half-lives."""

    total: float = 0.0
    weight: float = 0.0

    def then(self, value: float, seconds: float, half_life: float) -> Mean:
        """The mean after the value held for `seconds`."""
        kept = 0.5 ** (seconds / half_life)
        return Mean(self.total * kept + value * (1 - kept), self.weight * kept + 1 - kept)

    @property
    def value(self) -> float | None:
        """None as long as too little was read."""
        return self.total / self.weight if self.weight >= 1 - 0.5**LEAST - 1e-9 else None


Means = Mapping[str, Mean]


def read(stored: Mapping[str, list[float]]) -> dict[str, Mean]:
    """Means as they were kept."""
    return {name: Mean(total, weight) for name, (total, weight) in stored.items()}


def kept(means: Means) -> dict[str, list[float]]:
    """Means as they are kept, in JSON."""
    return {name: [mean.total, mean.weight] for name, mean in means.items()}
