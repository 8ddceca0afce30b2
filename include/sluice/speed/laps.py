"""How long each step of a batch took."""

from __future__ import annotations

import time


class Laps:
    """Milliseconds from one lap to the next, by the step's name; a step that is repeated adds up."""

    def __init__(self) -> None:
        self.durations: dict[str, int] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """The step of this name ends now."""
        now = time.perf_counter()
        self.durations[name] = self.durations.get(name, 0) + round((now - self._last) * 1000)
        self._last = now
