"""Series as they are collected: a metric's values by their labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sluice.monitoring.families import FAMILIES

Labels = tuple[str, ...]


@dataclass(frozen=True)
class Histogram:
    """How many values fall between each upper bound and the one before it, and the sum of all."""

    counts: Mapping[str, int]
    sum: float


@dataclass
class MetricSeries:
    """Values by metric and labels."""

    values: defaultdict[str, dict[Labels, float | Histogram]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, name: str, value: float | Histogram | None, *labels: str) -> None:
        """Take a value; None, of something that is not known, is left out."""
        if len(labels) != len(FAMILIES[name].labels):
            raise ValueError(f"{name} has the labels {FAMILIES[name].labels}, not {labels}")
        if value is not None:
            self.values[name][labels] = value


def age(moment: datetime | None, now: float) -> float | None:
    """The seconds since a time; None if there is none."""
    return None if not moment else max(0.0, now - moment.timestamp())
