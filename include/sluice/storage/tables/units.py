"""What is known of units and of their hosts, and each unit's moves."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables import locks
from sluice.storage.tables.schema import unit_hosts, unit_loads, unit_moves

#: Moves that are kept.
KEPT = 1_000
HOUR = timedelta(hours=1)
#: The error of a move that did not arrive, and did not fail either.
MOVED_MEANWHILE = "somebody else moved it meanwhile"

#: Smoothed figures, each as the sum of what was read, weighted, and the weights: {"cpu": [0.21, 0.8]}.
Smoothed = Mapping[str, list[float]]


@dataclass(frozen=True)
class UnitRow:
    """A unit's smoothed figures, and the last reading of its process."""

    unit: str
    smoothed: Smoothed = field(default_factory=dict)
    reading: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class HostRow:
    """What is known of a host.

    cores, core: how many it has, and how fast one is; None if that was not measured. looked_at: when the last
    look was done. silent_since: None if the host answered it. why: it could not be used then, and why.
    """

    host: str
    looked_at: datetime
    cores: int | None = None
    core: float | None = None
    measured_at: datetime | None = None
    smoothed: Smoothed = field(default_factory=dict)
    reading: Mapping[str, Any] | None = None
    silent_since: datetime | None = None
    why: str = ""


@dataclass(frozen=True)
class MoveRow:
    """A move. ended_at: None while it is at work, or if it was broken off. error: why it did not arrive."""

    id: int
    unit: str
    source: str
    target: str
    why: str
    counts: bool
    begun_at: datetime
    ended_at: datetime | None
    error: str


def read_units(connection: sa.Connection) -> dict[str, UnitRow]:
    """All units that were measured, by name."""
    rows = connection.execute(sa.select(unit_loads))
    return {row.unit: UnitRow(row.unit, row.smoothed, row.reading) for row in rows}


def read_hosts(connection: sa.Connection) -> dict[str, HostRow]:
    """All hosts that were looked at, by name."""
    found = (HostRow(**_aware(row)) for row in connection.execute(sa.select(unit_hosts)).mappings())
    return {row.host: row for row in found}


def write(connection: sa.Connection, units: Collection[UnitRow], hosts: Collection[HostRow]) -> None:
    """Replace both tables: what is not given is there no more, and is forgotten."""
    locks.take(connection, locks.Lock.UNITS)  # two looks at once would both insert the same rows
    for table, rows in ((unit_loads, units), (unit_hosts, hosts)):
        connection.execute(sa.delete(table))
        if rows:
            connection.execute(sa.insert(table), [vars(row) for row in rows])


def begin(connection: sa.Connection, move: Mapping[str, Any], at: datetime, budget: int) -> int | None:
    """Record that a move begins, and return its number. None, and nothing, if it is beyond the budget.

    move: unit, source, target, why, counts. budget: moves that count, in an hour. Callers hold the
    placement's lock.
    """
    if move["counts"] and counted(connection, at) >= budget:
        return None
    made = connection.execute(sa.insert(unit_moves).values(**move, begun_at=at).returning(unit_moves.c.id))
    number = int(made.scalar_one())
    newest = sa.select(unit_moves.c.id).order_by(unit_moves.c.id.desc()).offset(KEPT).limit(1)
    oldest = connection.scalar(newest)
    if oldest is not None:
        connection.execute(sa.delete(unit_moves).where(unit_moves.c.id <= oldest))
    return number


def end(connection: sa.Connection, number: int, at: datetime, error: str = "") -> None:
    """Record that the move of that number arrived, or failed."""
    ended = sa.update(unit_moves).where(unit_moves.c.id == number)
    connection.execute(ended.values(ended_at=at, error=error))


def counted(connection: sa.Connection, at: datetime) -> int:
    """How many moves of the last hour count against the budget, those that failed included."""
    mine = sa.select(sa.func.count()).select_from(unit_moves).where(unit_moves.c.counts)
    return int(connection.scalar(mine.where(unit_moves.c.begun_at > at - HOUR)) or 0)


def open_moves(connection: sa.Connection) -> list[MoveRow]:
    """Moves without an end, oldest first."""
    return _moves(connection, sa.select(unit_moves).where(unit_moves.c.ended_at.is_(None)))


def last_moves(connection: sa.Connection, count: int) -> list[MoveRow]:
    """The last moves, oldest first."""
    newest = sa.select(unit_moves.c.id).order_by(unit_moves.c.id.desc()).limit(count)
    return _moves(connection, sa.select(unit_moves).where(unit_moves.c.id.in_(newest)))


def _moves(connection: sa.Connection, query: sa.Select[Any]) -> list[MoveRow]:
    rows = connection.execute(query.order_by(unit_moves.c.id)).mappings()
    return [MoveRow(**_aware(row)) for row in rows]


def _aware(row: sa.RowMapping) -> dict[str, Any]:
    """The row, its times with their zone, which SQLite does not keep."""
    plain = {str(name): value for name, value in row.items()}
    times = {name: value for name, value in plain.items() if isinstance(value, datetime)}
    return plain | {
        name: value if value.tzinfo else value.replace(tzinfo=UTC) for name, value in times.items()
    }
