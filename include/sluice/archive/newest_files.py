"""The archive's files from the newest arrivals back, and what is archived since a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Engine, func, select

from sluice.storage.tables.schema import archive_files as files

#: Rows of the index that are read at a time.
ROWS = 500


@dataclass(frozen=True)
class ArrivedFile:
    """A file with lines. arrival_min, arrival_max: when its lines came, in ms since the epoch."""

    path: str
    bytes: int
    arrival_min: int
    arrival_max: int


def newest_first(database: Engine, topic: str) -> Iterator[ArrivedFile]:
    """All files of the topic that have lines, in all incarnations, by their last arrival."""
    query = select(*(files.c[name] for name in ArrivedFile.__dataclass_fields__))
    query = query.where(files.c.topic == topic, files.c.lines > 0)
    query = query.order_by(files.c.arrival_max.desc(), files.c.path)
    at = 0
    while True:
        with database.connect() as connection:
            rows = connection.execute(query.offset(at).limit(ROWS)).all()
        yield from (ArrivedFile(**row._mapping) for row in rows)
        if len(rows) < ROWS:
            return
        at += len(rows)


def last_arrival(database: Engine, topic: str, places: Iterable[tuple[int, int]]) -> int:
    """When the last line came that is archived below each of these (partition, position): the earliest.

    In ms since the epoch; 0 if nothing is archived below one of them.
    """
    found = []
    with database.connect() as connection:
        for partition, position in places:
            below = (files.c.topic == topic, files.c.partition == partition, files.c.next <= position)
            last = select(func.max(files.c.arrival_max)).where(*below, files.c.lines > 0)
            found.append(int(connection.scalar(last) or 0))
    return min(found, default=0)


def days_since(database: Engine, topic: str, arrival: int) -> dict[tuple[date, int], int]:
    """The days of event time of which lines were archived since then (ms since the epoch).

    {(day, partition): the last position of the newest of these files}.
    """
    query = select(files.c.partition, files.c.next, files.c.days)
    query = query.where(files.c.topic == topic, files.c.arrival_max >= arrival, files.c.lines > 0)
    found: dict[tuple[date, int], int] = {}
    with database.connect() as connection:
        for row in connection.execute(query):
            for day in row.days:
                key = date.fromisoformat(day), row.partition
                found[key] = max(found.get(key, 0), row.next - 1)
    return found
