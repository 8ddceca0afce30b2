"""The index over the archive's footers, in PostgreSQL: which files hold lines of which day.

It is made from the footers, and can be rebuilt from them. A partition's rows are added in the order of its
files, so the index is complete below the newest row's `next`: batch runs take their cut from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Connection, Engine, or_, select
from sqlalchemy.dialects.postgresql import JSONB

from sluice.archive.file import ArchivedPartition
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_chains
from sluice.storage.tables.schema import DAYS_OF_FILE
from sluice.storage.tables.schema import archive_files as files

#: Rows that `files_from` reads at a time.
PAGE = 100


@dataclass(frozen=True)
class IndexedFile:
    """One row: a file's path, its offsets [first, next) and its lines by day of event time."""

    topic: str
    topic_id: str
    partition: int
    first: int
    next: int
    records: int  # of Kafka
    lines: int
    bytes: int
    days: dict[str, int]
    unparsed: int
    path: str
    arrival_min: int  # ms since the epoch
    arrival_max: int


def topics_with(settings: Settings, day: date) -> set[str]:
    """The topics that have archived lines of that day of event time (UTC)."""
    query = select(files.c.topic).distinct().where(_has_lines_of(day))
    with engine(settings).connect() as connection:
        return set(connection.scalars(query))


def positions(settings: Settings, topic: str) -> dict[int, int]:
    """The position after the last archived record, by partition: a cut for a batch run."""
    return _ends(engine(settings), topic)


def positions_of(settings: Settings, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The same positions for these partitions alone; 0 where nothing is archived."""
    ends = _ends(engine(settings), topic)
    return {number: ends.get(number, 0) for number in partitions}


def end_of(database: Engine, topic: str, partition: int) -> int | None:
    """The position after what is archived of a partition, in all incarnations; None if nothing is."""
    return _ends(database, topic).get(partition)


def _ends(database: Engine, topic: str) -> dict[int, int]:
    with database.connect() as connection:
        return archive_chains.ends(archive_chains.sums(connection, topic))


def lines_of(connection: Connection, topic: str, day: date, cut: Mapping[int, int]) -> int:
    """The lines of a day of event time, by the footers of the files that begin before the cut."""
    own = sqlalchemy.type_coerce(files.c.days, JSONB)[day.isoformat()]
    query = select(own).where(files.c.topic == topic, _begun(cut), _has_lines_of(day))
    return sum(_lines(said) for said in connection.scalars(query))


def files_for(
    settings: Settings,
    topic: str,
    day: date | None,
    cut: Mapping[int, int],
    *,
    between: tuple[int, int] | None = None,
) -> list[IndexedFile]:
    """The files that begin before the cut and have lines of that day of event time.

    Without a day, these are all files with records. A file may reach beyond the cut: the reader leaves out
    the records at `offset >= cut[partition]`. `between`, with a day, leaves out the files
    whose lines of that day are all outside [since, until), ms; of older files nobody knows that.
    """
    with engine(settings).connect() as connection:
        return _files_for(connection, topic, day, cut, between)


def files_of(
    settings: Settings, topic: str, days: Iterable[date], cut: Mapping[int, int], between: tuple[int, int]
) -> list[IndexedFile]:
    """The files that `files_for` has for any of these days, each once, as they stood at one moment."""
    found: dict[str, IndexedFile] = {}
    with engine(settings).connect() as connection:
        # Otherwise a file could be found for one day, and what it is merged into for another.
        connection.execution_options(isolation_level="REPEATABLE READ")
        for day in days:
            for file in _files_for(connection, topic, day, cut, between):
                found[file.path] = file
    return list(found.values())


def _files_for(
    connection: Connection,
    topic: str,
    day: date | None,
    cut: Mapping[int, int],
    between: tuple[int, int] | None,
) -> list[IndexedFile]:
    query = select(*(files.c[name] for name in IndexedFile.__dataclass_fields__)).where(
        files.c.topic == topic, files.c.records > 0, _begun(cut)
    )
    if day is not None:
        query = query.where(_has_lines_of(day))
    if day is not None and between is not None:
        query = query.where(_reaches(day, *between))
    query = query.order_by(files.c.topic_id, files.c.partition, files.c.first)
    rows = connection.execute(query).all()
    if day is not None and between is not None:
        rows = [row for row in rows if _has(row.days[day.isoformat()], *between)]
    return [_indexed(row) for row in rows]


def file_at(database: Engine, topic: str, partition: int, position: int) -> IndexedFile | None:
    """The file that has the record at that position; None if none has."""
    own = (files.c.topic == topic, files.c.partition == partition, files.c.first <= position)
    query = select(*(files.c[name] for name in IndexedFile.__dataclass_fields__))
    query = query.where(*own, files.c.next > position, files.c.records > 0)
    with database.connect() as connection:
        row = connection.execute(query.order_by(files.c.first.desc()).limit(1)).one_or_none()
    return None if row is None else _indexed(row)


def files_from(database: Engine, topic: str, partition: int, position: int) -> list[IndexedFile]:
    """The next PAGE files with lines that end behind that position, in order, in all incarnations."""
    own = (files.c.topic == topic, files.c.partition == partition, files.c.next > position)
    query = select(*(files.c[name] for name in IndexedFile.__dataclass_fields__)).where(*own)
    query = query.where(files.c.records > 0).order_by(files.c.first).limit(PAGE)
    with database.connect() as connection:
        return [_indexed(row) for row in connection.execute(query)]


def _indexed(row: Any) -> IndexedFile:
    return IndexedFile(**{**row._mapping, "days": {name: _lines(said) for name, said in row.days.items()}})


def _begun(cut: Mapping[int, int]) -> sqlalchemy.ColumnElement[bool]:
    """Whether a file begins before the cut."""
    below = [(files.c.partition == number) & (files.c.first < end) for number, end in cut.items()]
    return or_(sqlalchemy.false(), *below)


def _has_lines_of(day: date) -> sqlalchemy.ColumnElement[bool]:
    """Whether a file has lines of the day; the table's index over days answers it."""
    return sqlalchemy.literal_column(DAYS_OF_FILE, JSONB).op("?", is_comparison=True)(day.isoformat())


def _reaches(day: date, since: int, until: int) -> sqlalchemy.ColumnElement[bool]:
    """Whether [since, until) lies beside all of a file's lines of the day, or may have some of them."""
    said = sqlalchemy.type_coerce(files.c.days, JSONB)[day.isoformat()]
    first, last = (said[at].astext.cast(BigInteger) for at in (1, -1))
    return or_(first.is_(None), (first < until) & (last >= since))


def _has(said: int | list[int], since: int, until: int) -> bool:
    """Whether the index's entry of a day has a stretch of time in [since, until), or none at all."""
    if not isinstance(said, list):
        return True
    return any(first < until and last >= since for first, last in zip(said[1::2], said[2::2], strict=True))


def _lines(said: int | list[int]) -> int:
    """How many lines the index's entry of a day says: the first number or, of older files, the only one."""
    return said[0] if isinstance(said, list) else said


def at(place: ArchivedPartition) -> tuple[Any, ...]:
    """The condition of a partition's rows."""
    return (
        files.c.topic == place.topic,
        files.c.topic_id == place.topic_id,
        files.c.partition == place.partition,
    )
