"""Lines that no task counts: how many, by reason and day of arrival, and the newest of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

from sluice.storage.tables.schema import dead_letters

#: Letters that are counted at most, the newest ones: there may be as many as lines.
MOST = 100_000
#: How long PostgreSQL may look for an answer.
PATIENCE = "5s"


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
    unreadable: str | None = None  # what was wrong with the record's bytes; `line` is then their beginning
    last_offset: int | None = None  # of the records that could not be read


def by_reason(engine: sa.Engine, topic: str, since: datetime) -> dict[str, dict[date, int]]:
    """How many came since then: {reason: {day of arrival (UTC): lines}}.

    Only the newest `MOST` are counted. Raises OperationalError if even that takes too long.
    """
    t = dead_letters.c
    came = sa.select(t.reason, t.arrived_at).where(t.topic == topic, t.arrived_at >= since)
    own = came.order_by(t.arrived_at.desc()).limit(MOST).subquery().c
    day = sa.func.date(sa.func.timezone("UTC", own.arrived_at))
    if engine.dialect.name != "postgresql":  # others keep the time in UTC, without a zone
        day = sa.func.date(own.arrived_at)
    query = sa.select(own.reason, day, sa.func.count()).group_by(own.reason, day)
    found: dict[str, dict[date, int]] = {}
    with _impatient(engine) as connection:
        for reason, at, lines in connection.execute(query):
            found.setdefault(reason, {})[at if isinstance(at, date) else date.fromisoformat(at)] = int(lines)
    return found


def newest(
    engine: sa.Engine,
    topic: str,
    *,
    reason: str = "",
    day: date | None = None,
    since: datetime | None = None,
    limit: int = 20,
) -> list[DeadLetter]:
    """The newest ones of the topic, of that reason and that day of arrival (UTC) if they are given.

    since: none that came before; a reason that is rare would else be looked for among all letters there are.
    Raises OperationalError if it takes too long.
    """
    t = dead_letters
    names = ("bytes" if name == "size" else name for name in DeadLetter.__dataclass_fields__)
    query = sa.select(*(t.c[name] for name in names)).where(t.c.topic == topic)
    if reason:
        query = query.where(t.c.reason == reason)
    if since is not None:
        query = query.where(t.c.arrived_at >= since)
    if day is not None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        query = query.where(t.c.arrived_at >= begin, t.c.arrived_at < begin + timedelta(days=1))
    order = (t.c.arrived_at.desc(), t.c.partition, t.c.offset.desc(), t.c.line_in_record)
    with _impatient(engine) as connection:
        return [DeadLetter(*row) for row in connection.execute(query.order_by(*order).limit(limit))]


def of_dimensions(engine: sa.Engine, topic: str) -> list[tuple[int, int, int]]:
    """The places (partition, offset, line in the record) of lines that no task counts because of one task.

    Releases before 0023 of the schema made a line a dead letter if it had too long a value for a dimension of
    any task. Such a line stays one, in both layers.
    """
    t = dead_letters.c
    query = sa.select(t.partition, t.offset, t.line_in_record).where(
        t.topic == topic, sa.literal_column("reason").like(sa.literal_column("'dimension over %'"))
    )
    with engine.connect() as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(query)]


@contextmanager
def _impatient(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A connection whose statements end after `PATIENCE`."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.set_config("statement_timeout", PATIENCE, True)))
        yield connection
