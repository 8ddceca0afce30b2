"""Spans of time: all of it, those between two moments, and the periods of a task that touch a day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from sluice.runtime.days import DAY_MS, begin_ms, days_of
from sluice.tasks.period import Period

#: All of time, in ms: Hive's time stamps end with the year 9999.
ALWAYS = range(-(1 << 50), 1 << 50)


@dataclass(frozen=True)
class Interval:
    """One period, [start, end) in ms since the epoch."""

    start: int
    end: int

    @property
    def days(self) -> list[date]:
        """The days (UTC) that it covers."""
        return days_of(self.start, self.end)


@dataclass(frozen=True)
class Periods:
    """The periods that touch a day: those that start in `inside` (ms) lie wholly in it."""

    inside: range
    crossing: tuple[Interval, ...]

    @classmethod
    def of(cls, day: date, span: Period) -> Periods:
        """The periods of a task that touch the day; `span` says how the task cuts time.

        The periods may follow a time zone in which the day begins at another moment.
        """
        begin = begin_ms(day)
        end = begin + DAY_MS
        first, last = (Interval(start, span.end(start)) for start in (span.start(begin), span.start(end - 1)))
        crossing = tuple(p for p in dict.fromkeys((first, last)) if p.start < begin or p.end > end)
        inside = range(
            first.end if first.start < begin else first.start, last.start + (1 if last.end <= end else 0)
        )
        return cls(inside, crossing)


def within(since: int | None, until: int | None) -> range:
    """The starts of periods in [since, until), ms; None: without a limit."""
    return range(ALWAYS.start if since is None else since, ALWAYS.stop if until is None else until)
