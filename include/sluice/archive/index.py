"""The index over the archive's footers, in PostgreSQL: which files hold lines of which day.

It is made from the footers, and can be rebuilt from them. A partition's rows are added in the order of its
files, so the index is complete below the newest row's `next`: batch runs take their cut from it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Connection, Engine, delete, func, or_, select
from sqlalchemy.dialects.postgresql import JSONB, insert

from sluice.archive import chain, layout
from sluice.archive.chain import Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import Footer
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.storage.tables.schema import DAYS_OF_FILE
from sluice.storage.tables.schema import archive_files as files
from sluice.storage.tables.schema import archive_losses as losses

log = logging.getLogger(__name__)


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


def add(database: sqlalchemy.Engine, added: Iterable[tuple[Footer, int, str]]) -> None:
    """Index files (footer, bytes, path); a loss also gets a row in its own table and an alert.

    All rows are written in one transaction. Files that are indexed already are written again. Pass the files
    in the order of their offsets.
    """
    rows = list(added)
    for footer, _, path in rows:
        if footer.loss is not None:
            _raise_loss(database, footer, path)
    with database.begin() as connection:
        for footer, length, path in rows:
            _put(connection, footer, length, path)


def reconcile(database: sqlalchemy.Engine, claims: Claims, place: ArchivedPartition) -> list[Link]:
    """Bring a partition's rows up to what stands in HDFS, and return its links, oldest first.

    Reads the footers of files that the index does not know (a writer died between its rename and its row),
    forgets rows whose file is gone, and always reads the newest footer, from which the next position is
    taken.
    """
    # Read in this order: a file that another writer adds meanwhile may be missing in `known`, but never in
    # `standing`. Otherwise its row would be taken for that of a file that is gone.
    known = _rows(database, place)
    standing = {layout.first_of(file.name) or 0: file for file in claims.files()}
    gone = sorted(set(known) - set(standing))
    if gone:
        log.warning(
            "%s: %d indexed files are not in HDFS any more, from offset %d on", place, len(gone), gone[0]
        )
        with database.begin() as connection:
            connection.execute(delete(files).where(*_at(place), files.c.first.in_(gone)))
    newest = max(standing, default=None)
    links, unknown = [], []
    for first, file in sorted(standing.items()):
        row = known.get(first)
        path = claims.path(first)
        if row is not None and row.bytes == file.length and first != newest:
            links.append(Link(first, row.next, path))
            continue
        footer = claims.footer(file)
        links.append(Link(first, footer.next, path))
        if row is None or (row.bytes, row.next) != (file.length, footer.next):
            unknown.append((footer, file.length, path))
    # A broken chain stays out of the index: a cut after a gap would promise lines that are not there.
    chain.check(place.topic, place.partition, links)
    add(database, unknown)
    return links


def replace(database: Engine, place: ArchivedPartition, rows: Iterable[tuple[Footer, int, str]]) -> None:
    """Replace the partition's rows by these files (footer, bytes, path) in one transaction."""
    with database.begin() as connection:
        connection.execute(delete(files).where(*_at(place)))
        for footer, length, path in rows:
            _put(connection, footer, length, path)


def known(database: Engine, place: ArchivedPartition) -> dict[int, tuple[int, int]]:
    """What the index has of the partition: {first offset: (offset after the last, bytes)}."""
    return {first: (row.next, row.bytes) for first, row in _rows(database, place).items()}


def topics_with(settings: Settings, day: date) -> set[str]:
    """The topics that have archived lines of that day of event time (UTC)."""
    query = select(files.c.topic).distinct().where(_has_lines_of(day))
    with engine(settings).connect() as connection:
        return set(connection.scalars(query))


def positions(settings: Settings, topic: str) -> dict[int, int]:
    """The position after the last archived record, by partition: a cut for a batch run."""
    query = (
        select(files.c.partition, func.max(files.c.next))
        .where(files.c.topic == topic)
        .group_by(files.c.partition)
    )
    with engine(settings).connect() as connection:
        return {partition: int(following) for partition, following in connection.execute(query)}


def positions_of(settings: Settings, topic: str, partitions: Iterable[int]) -> dict[int, int]:
    """The same positions for these partitions alone: few rows are read, however many there are."""
    return {number: end_of(engine(settings), topic, number) or 0 for number in partitions}


def end_of(database: Engine, topic: str, partition: int) -> int | None:
    """The position after what is archived of a partition, in all incarnations; None if nothing is."""
    ends = []
    with database.connect() as connection:
        for topic_id in _incarnations(connection, topic):
            newest = select(files.c.next).where(*_at(ArchivedPartition(topic, topic_id, partition)))
            ends.append(connection.scalar(newest.order_by(files.c.first.desc()).limit(1)))
    return max((int(each) for each in ends if each is not None), default=None)


def _incarnations(connection: Connection, topic: str) -> Iterator[str]:
    """The ids that the topic had, each found by the index."""
    topic_id = ""
    while True:
        following = select(func.min(files.c.topic_id)).where(
            files.c.topic == topic, files.c.topic_id > topic_id
        )
        if (found := connection.scalar(following)) is None:
            return
        yield (topic_id := str(found))


@dataclass(frozen=True)
class Coverage:
    """What the archive's files below a cut should hold, and what they do hold."""

    expected: int  # offsets between each partition's first file and its cut
    offsets: int  # offsets in the files
    lines: int  # of the day, by the files' footers


def coverage(database: Engine, topic: str, day: date, cut: Mapping[str, int]) -> Coverage:
    """How much of the topic is archived below the cut."""
    query = select(files.c.partition, files.c.first, files.c.next, files.c.days)
    begins: dict[str, int] = {}
    covered = lines = 0
    with database.connect() as connection:
        for row in connection.execute(query.where(files.c.topic == topic)):
            partition = str(row.partition)
            if row.first >= cut.get(partition, 0):
                continue
            begins[partition] = min(begins.get(partition, row.first), row.first)
            covered += row.next - row.first
            lines += _lines(row.days.get(day.isoformat(), 0))
    # A chain may begin anywhere: offsets are expected only from its first file on.
    return Coverage(sum(cut[partition] - first for partition, first in begins.items()), covered, lines)


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
    below = [(files.c.partition == number) & (files.c.first < end) for number, end in cut.items()]
    within = or_(sqlalchemy.false(), *below)
    query = select(*(files.c[name] for name in IndexedFile.__dataclass_fields__)).where(
        files.c.topic == topic, files.c.records > 0, within
    )
    if day is not None:
        query = query.where(_has_lines_of(day))
    if day is not None and between is not None:
        query = query.where(_reaches(day, *between))
    query = query.order_by(files.c.topic_id, files.c.partition, files.c.first)
    with engine(settings).connect() as connection:
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


def _indexed(row: Any) -> IndexedFile:
    return IndexedFile(**{**row._mapping, "days": {name: _lines(said) for name, said in row.days.items()}})


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


def _at(place: ArchivedPartition) -> tuple[Any, ...]:
    return (
        files.c.topic == place.topic,
        files.c.topic_id == place.topic_id,
        files.c.partition == place.partition,
    )


def _rows(database: sqlalchemy.Engine, place: ArchivedPartition) -> dict[int, Any]:
    with database.connect() as connection:
        query = select(files.c.first, files.c.next, files.c.bytes).where(*_at(place))
        return {row.first: row for row in connection.execute(query)}


def _put(connection: Connection, footer: Footer, length: int, path: str) -> None:
    days = {day: [lines, *footer.times[day]] for day, lines in footer.days.items()} if footer.times else None
    told = dataclasses.asdict(footer) | {"bytes": length, "path": path, "days": days or footer.days}
    values = {column.name: told[column.name] for column in files.columns}
    row = insert(files).values(values)
    connection.execute(row.on_conflict_do_update(constraint=files.primary_key, set_=values))
    if footer.loss is not None:
        lost = {
            "topic": footer.topic,
            "topic_id": footer.topic_id,
            "partition": footer.partition,
            "first": footer.first,
            "next": footer.next,
            "reason": footer.loss,
            "recorded_at": datetime.fromtimestamp(footer.written_at / 1000, UTC),
        }
        record = insert(losses).values(lost)
        connection.execute(record.on_conflict_do_update(constraint=losses.primary_key, set_=lost))


def _raise_loss(database: sqlalchemy.Engine, footer: Footer, path: str) -> None:
    name = f"lost {footer.topic}/{footer.partition}: {footer.first}-{footer.next}"
    message = f"{footer.loss}; recorded in {path}"
    alerts.sync(database, "archive", {name: message}, prefix=name)
