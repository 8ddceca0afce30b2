"""Lines that no task counts: how many, by reason and day of arrival, and the newest of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime

import sqlalchemy as sa

from sluice.storage.schema import dead_letters


@dataclass(frozen=True)
class DeadLetter:
    """A line that no task counts; `line` is its beginning."""

    topic: str
    partition: int
    offset: int
    line_in_record: int
    host: str | None
    src_file: str | None
    src_offset: int | None
    reason: str
    size: int  # of the whole line, in bytes
    line: bytes
    arrived_at: datetime


def by_reason(engine: sa.Engine, topic: str, since: datetime) -> dict[str, dict[date, int]]:
    """How many came since then: {reason: {day of arrival (UTC): lines}}."""
    t = dead_letters.c
    day = sa.func.date(sa.func.timezone("UTC", t.arrived_at))
    if engine.dialect.name != "postgresql":  # others keep the time in UTC, without a zone
        day = sa.func.date(t.arrived_at)
    query = sa.select(t.reason, day, sa.func.count()).where(t.topic == topic, t.arrived_at >= since)
    found: dict[str, dict[date, int]] = {}
    with engine.connect() as connection:
        for reason, at, lines in connection.execute(query.group_by(t.reason, day)):
            found.setdefault(reason, {})[at if isinstance(at, date) else date.fromisoformat(at)] = int(lines)
    return found


def newest(
    engine: sa.Engine, topic: str, *, reason: str = "", day: date | None = None, limit: int = 20
) -> list[DeadLetter]:
    """The newest ones of the topic, of that reason and that day of arrival (UTC) if they are given."""
    t = dead_letters
    names = ("bytes" if name == "size" else name for name in DeadLetter.__dataclass_fields__)
    query = sa.select(*(t.c[name] for name in names)).where(t.c.topic == topic)
    if reason:
        query = query.where(t.c.reason == reason)
    if day is not None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        end = datetime.fromtimestamp(begin.timestamp() + 86_400, UTC)
        query = query.where(t.c.arrived_at >= begin, t.c.arrived_at < end)
    order = (t.c.arrived_at.desc(), t.c.partition, t.c.offset.desc(), t.c.line_in_record)
    with engine.connect() as connection:
        return [DeadLetter(*row) for row in connection.execute(query.order_by(*order).limit(limit))]
