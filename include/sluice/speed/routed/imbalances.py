"""How evenly a task's workers were loaded over the last hour."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

#: In seconds. A minute's batches are kept as one entry: otherwise each new batch would have an hour's batches
#: read, and there may be one a second.
MINUTE, HOUR = 60.0, 3600.0


@dataclass
class _Minute:
    number: int
    tuples: int = 0
    weighted: float = 0.0
    worst: float = 0.0


@dataclass
class Imbalances:
    """max / mean - 1 of the workers' loads, batch by batch."""

    minutes: deque[_Minute] = field(default_factory=deque)
    last: float = 0.0

    def add(self, now: float, tuples: int, relative: float) -> None:
        number = int(now // MINUTE)
        if not self.minutes or self.minutes[-1].number != number:
            self.minutes.append(_Minute(number))
        newest = self.minutes[-1]
        newest.tuples += tuples
        newest.weighted += tuples * relative
        newest.worst = max(newest.worst, relative)
        self.last = relative
        while self.minutes[0].number < number - HOUR // MINUTE:
            self.minutes.popleft()

    def shown(self) -> dict[str, float] | None:
        """An `ImbalanceReport`, as JSON takes it; None before the first batch."""
        if not self.minutes:
            return None
        tuples = sum(each.tuples for each in self.minutes)
        return {
            "last": self.last,
            "hour": sum(each.weighted for each in self.minutes) / max(1, tuples),
            "worst": max(each.worst for each in self.minutes),
        }
