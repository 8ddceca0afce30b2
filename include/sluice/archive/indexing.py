"""Writes the index over the archive's footers: a file's row, a merged file's in place of others, or all."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy
from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from sluice.archive import chain, layout
from sluice.archive.chain import BrokenChain, Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import Footer
from sluice.archive.index import at
from sluice.storage.hdfs import HdfsFile
from sluice.storage.tables import alerts, archive_expiry
from sluice.storage.tables.schema import archive_files as files
from sluice.storage.tables.schema import archive_losses as losses

log = logging.getLogger(__name__)


def add(database: sqlalchemy.Engine, added: Iterable[tuple[Footer, int, str]]) -> None:
    """Index files (footer, bytes, path); a loss also gets a row in its own table and an alert.

    All rows are written in one transaction. Files that are indexed already are written again, and one whose
    offsets are in a merged file is left out. Pass the files in the order of their offsets.
    """
    with database.begin() as connection:
        for footer, length, path in added:
            hold(connection, ArchivedPartition(footer.topic, footer.topic_id, footer.partition))
            if not _reached_over(connection, footer):
                _put(connection, footer, length, path)
                _raise_loss(connection, footer, path)


def put_instead(connection: Connection, footer: Footer, length: int, path: str) -> None:
    """Index a file in place of all rows whose files begin within its offsets."""
    place = ArchivedPartition(footer.topic, footer.topic_id, footer.partition)
    hold(connection, place)
    within = (files.c.first >= footer.first) & (files.c.first < footer.next)
    connection.execute(delete(files).where(*at(place), within))
    _put(connection, footer, length, path)
    _raise_loss(connection, footer, path)


def hold(connection: Connection, place: ArchivedPartition) -> None:
    """Let nobody else change the partition's rows until the transaction ends.

    Whoever writes what a listing says lists under this lock: otherwise it could add a file again that was
    merged meanwhile.
    """
    if connection.dialect.name == "postgresql":
        name = f"sluice archive {place.topic} {place.topic_id} {place.partition}"
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))


def begins(connection: Connection, place: ArchivedPartition) -> int:
    """Where the partition's chain begins by design: retention took the files before that."""
    return archive_expiry.floor(connection, place.topic, place.topic_id, place.partition)


@dataclass(frozen=True)
class IndexedLink:
    """One file's row, as far as the chain and what merges it need it."""

    first: int
    next: int
    records: int  # of Kafka
    bytes: int
    path: str
    indexed_at: datetime


@dataclass(frozen=True)
class _Difference:
    """What stands in HDFS (links), and what the index has else: rows to add, and first offsets to forget."""

    links: list[Link]
    unknown: list[tuple[Footer, int, str]]
    vanished: list[int]  # their files are gone
    replaced: list[int]  # their files were merged
    fault: BrokenChain | None


def reconcile(database: sqlalchemy.Engine, claims: Claims, place: ArchivedPartition) -> list[Link]:
    """Bring a partition's rows up to what stands in HDFS, and return its links, oldest first.

    Reads the footers of files that the index does not know (a writer died between its rename and its row),
    forgets rows whose file is gone, and always reads the newest footer, from which the next position is
    taken.
    """
    footers: dict[HdfsFile, Footer] = {}
    with database.connect() as connection:
        known, since = _rows(connection, place), begins(connection, place)
    found = _difference(known, claims, place, since, footers)  # without a lock: it may read many footers
    if found.unknown or found.vanished or found.replaced:
        with database.begin() as connection:
            hold(connection, place)
            known, since = _rows(connection, place), begins(connection, place)
            found = _difference(known, claims, place, since, footers)
            _write(connection, place, found)
    if found.fault:
        raise found.fault
    return found.links


def _difference(
    known: Mapping[int, IndexedLink],
    claims: Claims,
    place: ArchivedPartition,
    since: int,
    footers: dict[HdfsFile, Footer],
) -> _Difference:
    """Compare these rows with the files from that position on; footers: those that were read already.

    The rows were read before: a file that another writer adds meanwhile may be missing in them, but never
    among the files. Otherwise its row would be taken for that of a file that is gone.
    """
    found = claims.standing().since(since)
    gone = [first for first in sorted(known) if first not in found.files]
    newest = max(found.files, default=None)
    links, unknown = [], []
    for first, file in found.files.items():
        row, path = known.get(first), claims.named(file.name)
        if row is not None and (row.bytes, row.path) == (file.length, path) and first != newest:
            links.append(Link(first, row.next, path))
            continue
        footer = footers[file] = footers.get(file) or claims.footer(file)
        links.append(Link(first, footer.next, path))
        if row is None or (row.bytes, row.path, row.next) != (file.length, path, footer.next):
            unknown.append((footer, file.length, path))
    return _Difference(
        links,
        unknown,
        vanished=[first for first in gone if found.over(first) is None],
        replaced=[first for first in gone if found.over(first) is not None],
        fault=next(chain.faults(place.topic, place.partition, links), None),
    )


def _write(connection: Connection, place: ArchivedPartition, found: _Difference) -> None:
    forgotten = list(found.vanished)
    if found.vanished:
        log.warning(
            "%s: %d indexed files are not in HDFS any more, from offset %d on",
            place,
            len(found.vanished),
            found.vanished[0],
        )
    # A broken chain stays out of the index: a cut after a gap would promise lines that are not there.
    if found.fault is None:
        forgotten += found.replaced
        for footer, length, path in found.unknown:
            put_instead(connection, footer, length, path)
    connection.execute(delete(files).where(*at(place), files.c.first.in_(forgotten)))


def rebuild(database: sqlalchemy.Engine, claims: Claims, place: ArchivedPartition) -> int:
    """Make the partition's rows again from the footers; returns how many files there are.

    Raises UnreadableArchiveFile before any row is touched.
    """
    footers = {file: claims.footer(file) for file in claims.files()}  # without a lock: it may take minutes
    with database.begin() as connection:
        hold(connection, place)
        found = claims.standing().since(begins(connection, place)).files.values()
        rows = [
            (footers.get(file) or claims.footer(file), file.length, claims.named(file.name)) for file in found
        ]
        connection.execute(delete(files).where(*at(place)))
        for footer, length, path in rows:
            _put(connection, footer, length, path)
    return len(rows)


def rows_of(database: Engine, place: ArchivedPartition) -> dict[int, IndexedLink]:
    """What the index has of the partition, by the files' first offsets."""
    with database.connect() as connection:
        return _rows(connection, place)


def clock(database: Engine) -> datetime:
    """The time by the clock that `IndexedLink.indexed_at` is of."""
    with database.connect() as connection:
        now: datetime = connection.execute(select(func.now())).scalar_one()
        return now


def _rows(connection: Connection, place: ArchivedPartition) -> dict[int, IndexedLink]:
    query = select(*(files.c[name] for name in IndexedLink.__dataclass_fields__)).where(*at(place))
    return {row.first: IndexedLink(**row._mapping) for row in connection.execute(query)}


def _reached_over(connection: Connection, footer: Footer) -> bool:
    """Whether the file's offsets are in another file that the index has, or in a later revision of it."""
    place = ArchivedPartition(footer.topic, footer.topic_id, footer.partition)
    before = select(files.c.first, files.c.next, files.c.path).where(
        *at(place), files.c.first <= footer.first
    )
    nearest = connection.execute(before.order_by(files.c.first.desc()).limit(1)).first()
    if nearest is None:
        return False
    longer = nearest.first < footer.first or nearest.next > footer.next
    revised = layout.revision_of(layout.name_in(nearest.path)) > footer.revision
    return bool((longer or revised) and nearest.next > footer.first)


def _put(connection: Connection, footer: Footer, length: int, path: str) -> None:
    days = {day: [lines, *footer.times[day]] for day, lines in footer.days.items()} if footer.times else None
    told = dataclasses.asdict(footer) | {"bytes": length, "path": path, "days": days or footer.days}
    values = {column.name: told[column.name] for column in files.columns if column.name in told}
    row = insert(files).values(values)
    keys = [column.name for column in files.primary_key]
    again = values | {"indexed_at": func.now()}
    connection.execute(row.on_conflict_do_update(index_elements=keys, set_=again))
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
        keys = [column.name for column in losses.primary_key]
        connection.execute(record.on_conflict_do_update(index_elements=keys, set_=lost))


def _raise_loss(connection: Connection, footer: Footer, path: str) -> None:
    """Raise the alert of a file with a loss."""
    if footer.loss is not None:
        name = f"lost {footer.topic}/{footer.partition}: {footer.first}-{footer.next}"
        alerts.sync_within(connection, "archive", {name: f"{footer.loss}; recorded in {path}"}, prefix=name)
