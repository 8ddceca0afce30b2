"""Retention of the archive: deletes the oldest files of each chain, `retention.archive_days` after they came.

A file goes as a whole, once its newest line arrived that long ago and is of a day that long ago. A line that
says a day after its arrival does not keep a file: its day is taken for that of its arrival. The newest file
of a chain always stays, because it says where the next one begins.

The books come first, in one transaction: from then on the chain begins later, the index lacks the files, and
days that lack lines are not computed again. Then the files are deleted. A run that died between is gone on
with by the next one; until then nobody reads the files that are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.chain import BrokenChain
from sluice.archive.claim import Claims
from sluice.archive.compaction import alone
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import UnreadableArchiveFile
from sluice.archive.index import at
from sluice.archive.verification import places
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_expiry
from sluice.storage.tables.archive_expiry import ExpiredSums
from sluice.storage.tables.schema import archive_files as files


@dataclass(frozen=True)
class ExpiredFiles:
    """What retention took from a partition's chain. files: of the index; deleted: of HDFS."""

    place: ArchivedPartition
    files: int = 0
    lines: int = 0
    bytes: int = 0
    deleted: int = 0
    problem: str = ""

    def __str__(self) -> str:
        done = (
            f"{self.place} of {self.place.topic_id}: {self.files:,} files with {self.lines:,} lines "
            f"({self.bytes >> 20:,} MiB) left the archive; {self.deleted:,} files deleted"
        )
        return f"{done}; {self.problem}" if self.problem else done


def expire(settings: Settings, topic: str, now: datetime | None = None) -> Iterator[ExpiredFiles]:
    """Delete what is beyond `retention.archive_days` of a topic; nothing if that is 0.

    Raises NotArchived, CompactionUnderWay, HdfsUnavailable.
    """
    if not settings.retention.archive_days:
        return
    before = (now or datetime.now(UTC)) - timedelta(days=settings.retention.archive_days)
    with alone(engine(settings), topic):
        for place, claims in places(settings, topic):
            yield of_partition(engine(settings), place, claims, before)


def of_partition(
    database: sa.Engine, place: ArchivedPartition, claims: Claims, before: datetime
) -> ExpiredFiles:
    """Delete the partition's files that are as old as that. Raises HdfsUnavailable."""
    try:
        indexing.reconcile(database, claims, place)
        gone = _book(database, place, before)
        crash_point("archive_expired")
        return ExpiredFiles(
            place,
            len(gone),
            sum(row.lines for row in gone),
            sum(row.bytes for row in gone),
            _delete(database, place, claims),
        )
    except (BrokenChain, UnreadableArchiveFile, HdfsError) as error:
        return ExpiredFiles(place, problem=str(error))


def _book(database: sa.Engine, place: ArchivedPartition, before: datetime) -> Sequence[Any]:
    """Take the rows of expired files out of the index, and record it; returns them."""
    with database.begin() as connection:
        indexing.hold(connection, place)
        query = sa.select(files).where(*at(place)).order_by(files.c.first)
        gone: list[Any] = []
        for row in connection.execute(query).all()[:-1]:
            if not _old(row, before):
                break
            gone.append(row)
        if gone:
            archive_expiry.book(
                connection,
                place.topic,
                place.topic_id,
                place.partition,
                following=gone[-1].next,
                sums=ExpiredSums(sum(row.records for row in gone), sum(row.lines for row in gone)),
                days=_days(gone),
            )
            firsts = files.c.first < gone[-1].next
            connection.execute(sa.delete(files).where(*at(place), firsts))
    return gone


def _days(gone: Sequence[Any]) -> dict[date, int]:
    """How many lines of which days these files have; a year that Python's dates lack has no night."""
    days: dict[date, int] = {}
    for row in gone:
        for day, said in row.days.items():
            with suppress(ValueError):
                own = date.fromisoformat(day)
                days[own] = days.get(own, 0) + (said[0] if isinstance(said, list) else said)
    return days


def _old(row: Any, before: datetime) -> bool:
    """Whether all lines of the file came before, and are of days before."""
    arrived = datetime.fromtimestamp(row.arrival_max / 1000, UTC)
    newest = min(max(row.days, default=""), arrived.date().isoformat())
    return arrived < before and newest < before.date().isoformat()


def _delete(database: sa.Engine, place: ArchivedPartition, claims: Claims) -> int:
    """Delete what is left of files before the chain's beginning; returns how many."""
    with database.connect() as connection:
        begins = archive_expiry.floor(connection, place.topic, place.topic_id, place.partition)
    found = claims.standing()
    everything = [*found.files.values(), *(each.file for each in found.replaced)]
    old = [each for each in everything if (layout.first_of(each.name) or 0) < begins]
    return sum(claims.delete(each) for each in sorted(old, key=lambda each: each.name))
