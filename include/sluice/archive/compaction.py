"""Merges the small files of days that are over into large ones, and deletes those that were replaced.

The archiver writes a file a partition every few seconds, and each takes memory of the NameNode for ever. A
merged file replaces its parts at the instant of its rename (`archive.standing`), then in the index, in one
transaction. The parts are kept for readers that listed them before. A run that died is gone on with by the
next one, from what stands.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.chain import BrokenChain
from sluice.archive.claim import Claims
from sluice.archive.compaction_plan import ChainedFile, closed_before, runs
from sluice.archive.contents import check_contents
from sluice.archive.file import ArchivedPartition, ArchiveFile
from sluice.archive.footer import UnreadableArchiveFile, of_opened
from sluice.archive.merging import merged
from sluice.archive.verification import places
from sluice.runtime import holds
from sluice.runtime.crash_points import crash_point
from sluice.runtime.days import today
from sluice.runtime.holds import Hold
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError, HdfsFile
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.storage.tables.days import Days
from sluice.storage.tables.erasures import Erasures, ErasureState

log = logging.getLogger(__name__)

Tell = Callable[[str], None]


class CompactionUnderWay(RuntimeError):
    """Another process compacts the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"another process compacts the archive of topic {topic!r}, as the DAG compaction does every "
            "night: wait until it has ended"
        )


class ErasureUnderWay(CompactionUnderWay):
    """Lines are being erased in the topic's archive."""

    def __init__(self, topic: str) -> None:
        RuntimeError.__init__(
            self,
            f"lines are being erased in the archive of topic {topic!r}, so its files stay as they are: "
            "`sluice erase --list` says how far that is; give an unfinished command again",
        )


class PartsChanged(RuntimeError):
    """The files that were merged are not those that stand any more; nothing was replaced."""


@dataclass(frozen=True)
class Compacted:
    """What was done to a partition, or would be: `merged` files became `made`, and `deleted` are gone.

    files: how many stood before. bytes: of the files that were merged. waiting: replaced files that are kept
    until readers are done with them.
    """

    place: ArchivedPartition
    files: int
    merged: int = 0
    made: int = 0
    bytes: int = 0
    deleted: int = 0
    waiting: int = 0
    problems: tuple[str, ...] = ()

    @property
    def planned(self) -> str:
        """What would be done, in a sentence."""
        return (
            f"{self.place} of {self.place.topic_id}: {self.files:,} files, {self.merged:,} of them "
            f"({self.bytes >> 20:,} MiB) would be merged into {self.made:,}; {self.waiting:,} replaced files "
            "are kept for readers, or wait for the next run"
        )

    def __str__(self) -> str:
        return (
            f"{self.place} of {self.place.topic_id}: {self.files:,} files, {self.merged:,} of them "
            f"({self.bytes >> 20:,} MiB) merged into {self.made:,}; {self.deleted:,} replaced files deleted, "
            f"{self.waiting:,} kept for readers"
        )


def compact(
    settings: Settings, topic: str, *, dry_run: bool = False, tell: Tell = log.info
) -> Iterator[Compacted]:
    """Compact a topic's archive, partition by partition; dry_run: only say what would be merged.

    While a disk is nearly full, nothing is merged, and what was replaced is deleted all the same.

    tell: is told of each merged file. Raises NotArchived, CompactionUnderWay, HdfsUnavailable.
    """
    database = engine(settings)
    with contextlib.nullcontext() if dry_run else alone(database, topic):
        cuts = Days(database, topic).cuts()
        for place, claims in places(settings, topic):
            own = PartitionCompaction(database, place, claims, settings.archive, tell)
            if dry_run:
                yield own.planned(cuts.get(place.partition, set()))
                continue
            if held := holds.reason(settings.home, Hold.LAYERS):
                tell(f"{place}: nothing is merged now: {held}")
            done = own.run(cuts.get(place.partition, set()), merging=not held)
            name = f"compaction of {place} of {place.topic_id}"
            raised = {name: "; ".join(done.problems)} if done.problems else {}
            alerts.sync(database, "archive", raised, prefix=name)
            yield done


@contextmanager
def alone(database: sa.Engine, topic: str, *, erasing: bool = False) -> Iterator[None]:
    """Let only one process merge or delete files of the topic; another one is refused, and does not wait.

    erasing: it erases lines. Until that is over nobody else merges or deletes files, also if it died: the
    sums wait for a file that it began (`redaction`). Raises CompactionUnderWay.
    """
    key = sa.func.hashtextextended(f"sluice compaction {topic}", 0)
    with database.connect() as connection:
        if not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
            raise CompactionUnderWay(topic)
        connection.commit()  # the session's lock outlives the transaction, so none needs to stay open
        try:
            if not erasing and Erasures(database).unfinished(topic, ErasureState.REDACTING):
                raise ErasureUnderWay(topic)
            yield
        finally:
            connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
            connection.commit()


class PartitionCompaction:
    """The compaction of one partition."""

    def __init__(
        self,
        database: sa.Engine,
        place: ArchivedPartition,
        claims: Claims,
        limits: Archive,
        tell: Tell = log.info,
    ) -> None:
        self._database, self._place, self._claims = database, place, claims
        self._limits, self._tell = limits, tell

    def planned(self, cuts: set[int]) -> Compacted:
        """What `run` would merge."""
        found, waiting = self._plan(cuts)
        return replace(
            waiting,
            merged=sum(map(len, found)),
            made=len(found),
            bytes=sum(each.file.length for own in found for each in own),
        )

    def run(self, cuts: set[int], *, merging: bool = True) -> Compacted:
        """Merge what can be merged, and delete what was replaced long enough ago. Raises HdfsUnavailable.

        cuts: positions that stay the ends of files. What cannot be merged is left as it is, and named.
        merging: False only deletes.
        """
        try:
            indexing.reconcile(self._database, self._claims, self._place)
        except (BrokenChain, UnreadableArchiveFile, HdfsError) as error:
            return replace(self._plan(cuts)[1], problems=(str(error),))
        found, done = self._plan(cuts)
        problems: list[str] = []
        for own in found if merging else ():
            try:
                self._merge(own)
            except (BrokenChain, UnreadableArchiveFile, HdfsError, PartsChanged) as error:
                problems.append(str(error))
                continue
            size = sum(each.file.length for each in own)
            done = replace(done, merged=done.merged + len(own), made=done.made + 1, bytes=done.bytes + size)
        deleted, waiting = self._sweep(problems)
        return replace(done, deleted=deleted, waiting=waiting, problems=tuple(problems))

    def _plan(self, cuts: set[int]) -> tuple[list[list[ChainedFile]], Compacted]:
        """The runs to merge, and how many files there are."""
        rows = indexing.rows_of(self._database, self._place)
        found = self._claims.standing()
        chained = [
            ChainedFile(file, first, row.next, row.records)
            for first, file in found.files.items()
            if (row := rows.get(first)) and (layout.name_in(row.path), row.bytes) == (file.name, file.length)
        ]
        limits = {"closed": closed_before(today()), "most_bytes": self._limits.merged_bytes}
        planned = list(runs(chained, cuts=cuts, **limits))
        return planned, Compacted(self._place, len(found.files), waiting=len(found.replaced))

    def _merge(self, own: Sequence[ChainedFile]) -> None:
        """Merge these files into one, and put it in their place."""
        claims = self._claims
        made = merged((claims.named(each.file.name), claims.opened(each.file)) for each in own)
        claims.publish(made, lambda: self._check_parts(made, own))
        indexing.reconcile(self._database, claims, self._place)
        crash_point("archive_merged")
        self._tell(
            f"{self._place}: {len(own):,} files of offsets {made.footer.first} to {made.footer.next - 1} are "
            f"{made.footer.name}, {len(made.data) >> 10:,} KiB"
        )

    def _check_parts(self, made: ArchiveFile, own: Sequence[ChainedFile]) -> None:
        """Raise PartsChanged if other files stand now than those that were merged."""
        now = self._claims.standing().files
        span = range(made.footer.first, made.footer.next)
        there = [(file.name, file.length) for first, file in now.items() if first in span]
        if there != [(each.file.name, each.file.length) for each in own]:
            raise PartsChanged(
                f"{self._place}: the files of offsets {span.start} to {span.stop - 1} changed while they "
                "were merged, so they were left alone; the next compaction looks again"
            )

    def _sound(self, file: HdfsFile, problems: list[str]) -> bool:
        """Whether a merged file can be read as a whole: its parts are the only copy of its lines."""
        path, opened = self._claims.named(file.name), self._claims.opened(file)
        try:
            check_contents(path, opened, of_opened(path, opened))
        except (UnreadableArchiveFile, HdfsError) as error:
            problems.append(
                f"{error}. `sluice archive repair {self._place.topic}` lets its parts stand again"
            )
            return False
        return True

    def _sweep(self, problems: list[str]) -> tuple[int, int]:
        """Delete replaced files that no reader needs any more; returns how many, and how many are kept."""
        self._claims.clean()  # first: a sleeper must not claim a name that is free after this (ADR 0083)
        rows = indexing.rows_of(self._database, self._place)
        before = indexing.clock(self._database) - timedelta(hours=self._limits.replaced_hours)
        deleted = waiting = 0
        sound: dict[str, bool] = {}
        for each in self._claims.standing().replaced:
            row = rows.get(layout.first_of(each.by.name) or 0)
            indexed = row is not None and layout.name_in(row.path) == each.by.name
            if row is None or not indexed or row.indexed_at > before:
                waiting += 1
                continue
            if each.by.name not in sound:
                sound[each.by.name] = self._sound(each.by, problems)
            if not sound[each.by.name]:
                waiting += 1
                continue
            try:
                end = self._claims.footer(each.file).next
                if end > row.next:
                    problems.append(
                        f"{self._claims.named(each.file.name)} begins within {each.by.name} and ends behind "
                        "it, so it is not deleted: move the one that does not belong there (restored, copied "
                        "or written by hand) out of the directory"
                    )
                    continue
                deleted += self._claims.delete(each.file)
            except (UnreadableArchiveFile, HdfsError) as error:
                problems.append(str(error))
                continue
            crash_point("archive_replaced_deleted")
        return deleted, waiting
