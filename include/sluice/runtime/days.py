"""Days in UTC, as milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

DAY_MS = 86_400_000


def begin_ms(day: date) -> int:
    """The first instant of the day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def days_of(start_ms: int, end_ms: int) -> list[date]:
    """The days that overlap a period, given as [start, end) in ms since the epoch; in order."""
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (start_ms, end_ms - 1))
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]
