"""Lines that no task counts: how many there are, by what, the newest of them, and all of them in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables.schema import dead_letters

#: Letters that are counted at most, the newest ones: there may be as many as lines.
MOST = 100_000
#: How long PostgreSQL may look for an answer that a page waits for.
PATIENCE = "5s"
#: Letters that are read at a time; each has at most 4 KiB of its line.
PAGE = 1_000
#: How the reason of a line begins that a release before 0023 of the schema gave up for all tasks
#: (`of_dimensions`).
OF_DIMENSION = "dimension over "


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

    @property
    def place(self) -> str:
        """Its name in a topic: partition/position.line, as `sluice lines` prints places."""
        return f"{self.partition}/{self.offset}.{self.line_in_record}"

    @property
    def key(self) -> tuple[int, int, int]:
        return self.partition, self.offset, self.line_in_record


@dataclass(frozen=True)
class LetterFilter:
    """Some letters of a topic: those of a reason, if one is given, that arrived in [since, until)."""

    topic: str
    reason: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        t = dead_letters.c
        found = [t.topic == self.topic]
        if self.reason:
            found.append(t.reason == self.reason)
        if self.since is not None:
            found.append(t.arrived_at >= self.since)
        if self.until is not None:
            found.append(t.arrived_at < self.until)
        return found


@dataclass(frozen=True)
class LetterGroup:
    """Letters of one reason, partition and file."""

    reason: str
    partition: int
    host: str | None
    src_file: str | None
    letters: int
    first: datetime  # arrival
    last: datetime


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
    chosen = LetterFilter(topic, reason, since)
    conditions = chosen.conditions()
    if day is not None:
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        conditions += LetterFilter(topic, "", begin, begin + timedelta(days=1)).conditions()
    with _impatient(engine) as connection:
        return _newest(connection, conditions, limit)


def newest_of(engine: sa.Engine, chosen: LetterFilter, limit: int) -> list[DeadLetter]:
    """The newest of these letters, however long it takes."""
    with engine.connect() as connection:
        return _newest(connection, chosen.conditions(), limit)


def groups(engine: sa.Engine, chosen: LetterFilter) -> Iterator[LetterGroup]:
    """All groups of these letters, the largest first."""
    t = dead_letters.c
    by = (t.reason, t.partition, t.host, t.src_file)
    number = sa.func.count()
    query = sa.select(*by, number, sa.func.min(t.arrived_at), sa.func.max(t.arrived_at))
    query = query.where(*chosen.conditions()).group_by(*by).order_by(number.desc(), *by)
    with engine.connect() as connection:
        for row in connection.execution_options(stream_results=True).execute(query):
            yield LetterGroup(*row)


def all_in_order(engine: sa.Engine, chosen: LetterFilter) -> Iterator[DeadLetter]:
    """All of these letters by partition and place there, a page at a time.

    Each page is a query of its own, so no transaction stays open however long the caller takes.
    """
    t = dead_letters.c
    place = (t.partition, t.offset, t.line_in_record)
    query = _letters(chosen.conditions()).order_by(*place).limit(PAGE)
    after: DeadLetter | None = None
    while True:
        some = query if after is None else query.where(sa.tuple_(*place) > sa.tuple_(*after.key))
        with engine.connect() as connection:
            page = [DeadLetter(*row) for row in connection.execute(some)]
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]


def has_letters(engine: sa.Engine, topic: str) -> bool:
    """Whether the topic has any."""
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.literal(1)).where(dead_letters.c.topic == topic).limit(1)) == 1


def at_place(
    engine: sa.Engine, topic: str, partition: int, offset: int, line_in_record: int
) -> DeadLetter | None:
    """The letter that has this place; None if there is none."""
    t = dead_letters.c
    own = (t.partition == partition, t.offset == offset, t.line_in_record == line_in_record)
    with engine.connect() as connection:
        row = connection.execute(_letters([t.topic == topic, *own])).one_or_none()
    return None if row is None else DeadLetter(*row)


def _letters(conditions: list[sa.ColumnElement[bool]]) -> sa.Select[Any]:
    names = ("bytes" if name == "size" else name for name in DeadLetter.__dataclass_fields__)
    return sa.select(*(dead_letters.c[name] for name in names)).where(*conditions)


def _newest(
    connection: sa.Connection, conditions: list[sa.ColumnElement[bool]], limit: int
) -> list[DeadLetter]:
    t = dead_letters.c
    order = (t.arrived_at.desc(), t.partition, t.offset.desc(), t.line_in_record)
    query = _letters(conditions).order_by(*order).limit(limit)
    return [DeadLetter(*row) for row in connection.execute(query)]


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
