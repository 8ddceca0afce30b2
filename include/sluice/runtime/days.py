"""Days in UTC, as milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, date, datetime

DAY_MS = 86_400_000


def begin_ms(day: date) -> int:
    """The first instant of the day."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
