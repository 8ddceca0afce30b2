"""Counts periods again from the archive, while the speed layer goes on.

1. The rebuild *begins*: one transaction sets its periods aside and fixes its cut, the end of the newest
   commit (`storage.tables.rebuilds`). A batch under way that was built on their state is counted again.
   From then on the speed layer owns the lines from the cut on, the rebuild those below it.
2. Once the archive has reached the cut, each day is counted as a backfill counts it (`backfill.day_count`):
   the versions' ranges below the cut, and what backfills had filled of the day. Of a line's copies the first
   one counts; the byte ledger has all lines below the cut, so no later copy is counted either. The day's
   blocks are written under names that nobody reads, and staged.
3. One transaction switches: the staged blocks replace what the periods had of backfills and of rebuilds
   before, and the periods leave the set-aside list. A result is then the sum of both parts, as after a
   backfill.
4. The results of the periods are written. For the same reason as in `backfill.backfill` they are never wrong
   for good: the newest commit is read after the switch, and the projector reads the list after the commits.
5. What nothing reads any more is deleted: columns of commits up to the cut, and blocks that were replaced.

A run that died is repeated: a rebuild that has begun keeps its cut, and its staged days. While the front-ends
may still send again what Kafka lost, the rebuild waits, and begins anew then. Periods of which retention
deleted lines from the archive are left out: they would be counted too small. So are versions that cannot be
counted, because their metric raises or does not end, for example: their periods stay set aside, with the
reason, until somebody asks for them again. The others are switched.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from sluice.archive import index
from sluice.batch.backfill.backfill import archived_to, explained, wait_for
from sluice.batch.backfill.day_count import DayCount, day_prefix, prune
from sluice.batch.backfill.projection import Projection
from sluice.batch.damage import damaged_file
from sluice.batch.rebuild.scope import scope, scope_of
from sluice.batch.reckoned import Told
from sluice.batch.task_versions import before, ranges_of
from sluice.engine.plan import EnginePlan, Range
from sluice.engine.set_aside import Failures, Noted, TasksFailed
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.state.blocks import period_prefix
from sluice.state.damage import DAMAGE, damaged, damaged_pointers
from sluice.state.portions import BYTES_A_GET, portions
from sluice.storage.hbase import NAMES_ONLY, STATE, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import FILLED, REBUILT, Backfills
from sluice.storage.tables.commits import CommitLog, Version
from sluice.storage.tables.epochs import PeriodKey, column_seq
from sluice.storage.tables.rebuilds import WAITS, Rebuild, Rebuilds, RebuildState
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def run(spark: SparkSession, settings: Settings, number: int) -> Rebuild:
    """Carry out a rebuild, or what is left of it; returns it as the book has it then.

    One that has to wait says so in its message. Raises UnknownRebuild, NotYet, RebuildMoved, DaysExpired,
    FilledMeanwhile, and what the stores raise while a daemon is away.
    """
    book = Rebuilds(engine(settings))
    rebuild = book.get(number)
    if rebuild.state == RebuildState.FINISHED:
        log.info("rebuild %d of %s is finished already", number, rebuild.topic)
        return rebuild
    book.set_running(number)
    try:
        with HBase.of(settings) as hbase:
            _Run(spark, settings, hbase, book, rebuild.topic).carry_out(number)
    except WAITS as error:
        log.info("rebuild %d of %s waits: %s", number, rebuild.topic, error)
        book.set_waiting(number, str(error))
    except Exception as error:
        book.set_failed(number, damaged_file(settings, rebuild.topic, error) or explained(error))
        raise
    return book.get(number)


@dataclass(frozen=True)
class _Run:
    """What the steps of a rebuild share."""

    spark: SparkSession
    settings: Settings
    hbase: HBase
    book: Rebuilds
    topic: str

    def carry_out(self, number: int) -> None:
        with self.book.alone(self.topic):
            rebuild = self.book.get(number)  # another run may have gone on with it meanwhile
            if rebuild.state == RebuildState.REQUESTED:
                rebuild = self._begin(rebuild)
            elif rebuild.state == RebuildState.COUNTING and self.book.outdated(rebuild):
                rebuild = self.book.begin(number, self.book.periods(number), rebuild.days)
                log.info("rebuild %d of %s begins anew: commit %s", number, self.topic, rebuild.cut_seq)
            versions = sorted({key[:2] for key in self.book.periods(number)})
            if rebuild.state != RebuildState.FINISHED:
                with self.book.unfilled(versions):
                    self._finish(rebuild, versions)

    def _finish(self, rebuild: Rebuild, versions: Sequence[Version]) -> None:
        """All that comes after the beginning."""
        if rebuild.state == RebuildState.COUNTING:
            self._count(self._countable(rebuild))
            self.book.switch(rebuild.id)
            crash_point("rebuild_switched")
        keys = self.book.periods(rebuild.id)
        self._project(keys)
        self._delete(rebuild, keys)
        self.book.finish(rebuild.id)
        log.info("rebuild %d of %s: %d periods count again", rebuild.id, self.topic, len(keys))

    def _begin(self, rebuild: Rebuild) -> Rebuild:
        found = scope_of(self.book.engine, rebuild)
        listed = Recounts(self.book.engine, self.topic)
        listed.forget(found.dropped)
        listed.expire(found.expired)
        if found.expired:
            log.warning("rebuild %d of %s: %s", rebuild.id, self.topic, found.left_out)
        begun = self.book.begin(rebuild.id, found.keys, found.days)
        crash_point("rebuild_begun")
        log.info(
            "rebuild %d of %s: %d periods up to commit %s",
            rebuild.id,
            self.topic,
            len(found.keys),
            begun.cut_seq,
        )
        return begun

    def _countable(self, rebuild: Rebuild) -> Rebuild:
        """The rebuild without periods of which retention deleted lines since it began."""
        found = scope(self.book.engine, self.topic, self.book.periods(rebuild.id))
        if not found.expired:
            return rebuild
        log.warning("rebuild %d of %s: %s", rebuild.id, self.topic, found.left_out)
        self.book.leave_out(rebuild.id, found.expired, found.days)
        return self.book.get(rebuild.id)

    def _count(self, rebuild: Rebuild) -> None:
        """Count and stage the days that are not staged yet, without versions that cannot be counted."""
        cut = {int(partition): offset for partition, offset in (rebuild.cut or {}).items()}
        wait_for(
            lambda: archived_to(index.positions_of(self.settings, self.topic, cut), cut) or None,
            f"the archive of {self.topic} has not reached the rebuild's cut: see the archiver "
            "(`sluice status`)",
        )
        versions = self._versions(rebuild)
        backfills = Backfills(self.book.engine)
        revision = backfills.revision(self.topic)  # before the days: what is filled between shows later
        filled = [f for f in backfills.filled(self.topic) if (f.task_id, f.version) in versions]
        again = {each.day for each in filled if each.revision > rebuild.revision}
        self.book.count_again(rebuild.id, again, revision)
        done = set(rebuild.done_days) - again
        for day in rebuild.days:
            if day not in done and day in rebuild.days:  # fewer, once a version failed
                on_day = {(each.task_id, each.version) for each in filled if each.day == day}
                versions = self._versions(rebuild)
                rebuild = self._stage(rebuild, day, cut, versions, on_day.intersection(versions))

    def _stage(
        self,
        rebuild: Rebuild,
        day: date,
        cut: dict[int, int],
        versions: Sequence[Version],
        filled: Collection[Version],
    ) -> Rebuild:
        """Count a day: what the speed layer counted, and what backfills had filled of it.

        Returns the rebuild, without versions that failed.
        """
        failures = self.spark.sparkContext.accumulator({}, Noted())
        told = self.spark.sparkContext.accumulator({}, Told())  # both layers have counted them already
        keys = self.book.periods(rebuild.id)
        count = DayCount(self.spark, self.settings, self.hbase, self.topic, cut)
        ranges = ranges_of(self.book.engine, self.topic)
        plan = self._plan(versions, {version: ranges.get(version, ()) for version in versions})
        pointers, lines = count.write(
            day, plan, rebuild.id, told.add, owner=REBUILT, only=keys, failures=failures
        )
        if filled:
            earlier = {version: [before(ranges[version])] for version in filled if version in ranges}
            own = self._plan(sorted(earlier), earlier)
            more, others = count.write(
                day, own, rebuild.id, told.add, owner=FILLED, only=keys, failures=failures
            )
            pointers, lines = pointers + more, lines + others
        crash_point("rebuild_blocks")
        failed = Failures(failures.value)
        rebuild = self._without(rebuild, failed)
        pointers = [each for each in pointers if each.period[:2] not in failed]
        self.book.stage(rebuild.id, day, pointers, lines)
        crash_point("rebuild_staged")
        log.info("%s %s: %d lines, %d blocks", self.topic, day, lines, len(pointers))
        return rebuild

    def _versions(self, rebuild: Rebuild) -> list[Version]:
        """The versions that the rebuild still has."""
        return sorted({key[:2] for key in self.book.periods(rebuild.id)})

    def _without(self, rebuild: Rebuild, failures: Failures) -> Rebuild:
        """Give up the versions that cannot be counted: their periods stay set aside, the others go on."""
        if not failures:
            return rebuild
        for version, why in failures.items():
            log.error("rebuild %d of %s: task %dv%d is left out: %s", rebuild.id, self.topic, *version, why)
        left = [key for key in self.book.periods(rebuild.id) if key[:2] not in failures]
        self.book.give_up(rebuild.id, failures, scope(self.book.engine, self.topic, left).days)
        for version in failures:
            self._prune(version, rebuild.days)
        return self.book.get(rebuild.id)

    def _plan(self, versions: Sequence[Version], ranges: Mapping[Version, Sequence[Range]]) -> EnginePlan:
        spec = TopicStore(self.book.engine).get(self.topic)
        tasks = [self._task(version) for version in versions]
        return EnginePlan.of(tasks, self.settings.limits, spec, ranges)

    def _task(self, version: Version) -> ActiveTask:
        return TaskStore(self.book.engine).version(*version)

    def _project(self, keys: Collection[PeriodKey]) -> None:
        """Write the results of the periods; one that is damaged by now is set aside again."""
        book, database = Backfills(self.book.engine), self.book.engine
        commits, recounts = CommitLog(database, self.topic), Recounts(database, self.topic)
        for version in sorted({key[:2] for key in keys}):
            own = sorted(key for key in keys if key[:2] == version)
            sizes = {key: period.bytes for key, period in commits.periods(own).items()}
            for pointer in book.pointers(own):
                sizes[pointer.period] = sizes.get(pointer.period, 0) + pointer.bytes
            projection = Projection(book, self.hbase, self.topic, self._task(version))
            for some in portions(own, lambda key: sizes.get(key, 0), BYTES_A_GET):  # noqa: B023
                left = some
                while left:
                    try:
                        projection.project_periods([start for *_, start in left])
                        break
                    except TasksFailed as failed:  # as the projector does
                        for each, why in failed.failures.items():
                            TaskStore(database).set_aside(*each, why)
                        break
                    except DAMAGE:
                        found = damaged(commits, self.hbase, left)
                        found += damaged_pointers(self.hbase, book.pointers(left))
                        gone = recounts.set_aside(found)
                        if not gone:
                            raise
                        left = [key for key in left if key not in gone]

    def _delete(self, rebuild: Rebuild, keys: Collection[PeriodKey]) -> None:
        """Delete what the rebuild replaced, and what tries of it that died left behind."""
        last = rebuild.cut_seq or 0
        for key in sorted(keys):
            found = self.hbase.scan(STATE, prefix=period_prefix(key), row_filter=NAMES_ONLY)
            old = [(row, [name for name in cells if column_seq(name) <= last]) for row, cells in found]
            self.hbase.delete(STATE, [(row, names) for row, names in old if names])
        for version in sorted({key[:2] for key in keys}):
            self._prune(version, rebuild.days)

    def _prune(self, version: Version, days: Collection[date]) -> None:
        """Delete the version's blocks of these days that nothing points to."""
        book = Backfills(self.book.engine)
        for day in days:
            for owner in (REBUILT, FILLED):
                prefix = day_prefix(version, day, owner)
                prune(self.hbase, prefix, book.rows_at(prefix))
