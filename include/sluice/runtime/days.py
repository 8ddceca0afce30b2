"""Days in UTC: as milliseconds since the epoch, whether they are over, and in stretches."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

DAY_MS = 86_400_000


def begin_ms(day: date) -> int:
    """The first instant of the day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def days_of(start_ms: int, end_ms: int) -> list[date]:
    """The days that overlap a period, given as [start, end) in ms since the epoch; in order."""
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (start_ms, end_ms - 1))
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


def today() -> date:
    """The day that goes on now."""
    return datetime.now(UTC).date()


def is_over(day: date, today: date) -> bool:
    """Whether the day has ended; only then nightly_batch computes it."""
    return day < today


def stretches(days: Iterable[date], longest: int | None = None) -> list[tuple[date, date]]:
    """Sorted days as stretches (first, last) without a gap, of at most `longest` days each."""
    found: list[tuple[date, date]] = []
    for day in days:
        if (
            found
            and day - found[-1][1] == timedelta(days=1)
            and (longest is None or (day - found[-1][0]).days < longest)
        ):
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found


def span(stretch: tuple[date, date]) -> str:
    """A stretch as people read it."""
    first, last = stretch
    return f"{first}" if first == last else f"{first} to {last}"
