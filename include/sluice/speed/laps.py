"""How long each step of a batch took."""

from __future__ import annotations

import time


class Laps:
    """The milliseconds of each step, by its name; the times of a repeated step are added up."""

    def __init__(self) -> None:
        self.durations: dict[str, int] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """Record that the step of this name ends now."""
        now = time.perf_counter()
        self.durations[name] = self.durations.get(name, 0) + round((now - self._last) * 1000)
        self._last = now
