"""Which periods of a task touch a day: those inside it, and those that other days have a part of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Period:
    """One period, [start, end) in ms since the epoch."""

    start: int
    end: int

    @property
    def days(self) -> list[date]:
        """The days (UTC) that it covers."""
        first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (self.start, self.end - 1))
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]


@dataclass(frozen=True)
class Periods:
    """The periods that touch a day; `inside` are the possible starts of those that lie in it as a whole."""

    inside: range
    crossing: tuple[Period, ...]

    @classmethod
    def of(cls, day: date, period_ms: int) -> Periods:
        begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
        end = begin + DAY_MS
        first, last = begin // period_ms * period_ms, (end - 1) // period_ms * period_ms
        crossing = tuple(
            Period(start, start + period_ms)
            for start in sorted({first, last})
            if start < begin or start + period_ms > end
        )
        inside = range(
            first if first >= begin else first + period_ms, last + 1 if last + period_ms <= end else last
        )
        return cls(inside, crossing)
