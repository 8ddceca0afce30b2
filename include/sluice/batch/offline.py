"""The batch layer: computes a day of event time from the archive into Hive.

The tables are `logs` and `task_results`.

1. The cut is fixed at the archive's present positions. Task versions are read after that.
2. The files that hold lines of the day are read once. Of a line's copies only the one that came first stays.
   What is left is written as the day's lines.
3. These lines are read back (the tasks need three of the nineteen columns of `logs`) and counted by the same
   code as in the speed layer. Each task version counts just the offsets that it was valid for, and those that
   it was filled backwards for.
4. Each table's partition is pointed at its new directory. A reader sees the old day or the new one, never a
   half, and a day without lines is an empty partition.
5. The book of days gets the cut and the counts, and what became of the lines, in one transaction. A run that
   dies before that is repeated.
6. Directories of older runs are deleted.

Runs of different days share nothing; two of the same day wait for each other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import sqlalchemy as sa

from sluice.archive import index
from sluice.batch import day_job
from sluice.batch.barred import barred
from sluice.batch.damage import damaged_file
from sluice.batch.day_lines import DayOf
from sluice.batch.task_versions import first_arrival, task_versions
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive
from sluice.storage.partitions import LOGS, TASK_RESULTS, Partition
from sluice.storage.postgres import engine
from sluice.storage.stores import Stores
from sluice.storage.tables import alerts, archive_expiry, tallies, uncounted
from sluice.storage.tables.days import Day, Days
from sluice.tasks.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: What a session for this needs besides the instance's own configuration. Partitions are written as plain
#: directories and made known through the SQL endpoint, because a catalogue of its own would cost 4 s a run.
SPARK_CONFIG: Mapping[str, str] = {
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
}


#: The source of the alerts.
ALERTS = "nightly"


class DaysFailed(RuntimeError):
    """Some days of a topic could not be computed; the others were."""

    def __init__(self, topic: str, failed: Mapping[date, str]) -> None:
        named = ", ".join(f"{day} ({why})" for day, why in failed.items())
        super().__init__(f"{topic}: {named}")


def run(spark: SparkSession, settings: Settings, topic: str, days: Iterable[date], run_id: str) -> list[Day]:
    """Compute these days one after the other; returns what the book says of them afterwards.

    A day that fails does not stop the others. Raises DaysFailed at the end if any failed.
    """
    computed: list[Day] = []
    failed: dict[date, str] = {}
    cause: Exception | None = None
    with Hive(settings) as hive:
        batch = _Batch(spark, settings, hive, Days(engine(settings), topic), run_id)
        for day in days:
            try:
                computed.append(batch.compute(DayOf(topic, day)))
            except Exception as error:
                log.exception("%s %s could not be computed", topic, day)
                failed[day] = damaged_file(settings, topic, error) or f"{type(error).__name__}: {error}"
                cause = cause or error
    if failed:
        raise DaysFailed(topic, failed) from cause
    return computed


def days_to_compute(
    settings: Settings, topic: str, day: date, *, marked: bool, missed: bool = False
) -> list[date]:
    """The run's own day and, if wanted, other days that have to be computed.

    marked: also the days that were marked since they were computed. missed: also the days that no night
    computed.
    """
    book = Days(engine(settings), topic)
    others = [*(book.marked() if marked else ()), *(book.missed() if missed else ())]
    return [day, *(other for other in others if other != day)]


def record_uncounted(database: sa.Engine, topic: str, day: date, failed: Failures) -> None:
    """Record the task versions that could not be counted on the day, with what each raised, and their alerts.

    They have no results of that day, so nothing of theirs can be compared or published. For the other
    versions the day stands. The table `uncounted` has them until a run computes them.
    """
    prefix = f"{topic} {day}: task "
    told = {}
    for (task_id, version), why in failed.items():
        name = f"{prefix}{task_id}v{version}"
        told[name] = f"{name} could not be counted: {why}"
        log.error("%s", told[name])
    with database.begin() as connection:
        uncounted.replace(connection, topic, day, failed)
        alerts.sync_within(connection, ALERTS, told, prefix=prefix)


@dataclass(frozen=True)
class _Batch:
    """What the days of one run share."""

    spark: SparkSession
    settings: Settings
    hive: Hive
    book: Days
    run_id: str

    def compute(self, which: DayOf) -> Day:
        holds.wait(self.settings.home, Hold.LAYERS, log.warning)
        with self.book.locked(which.day):
            return self._compute(which)

    def _compute(self, which: DayOf) -> Day:
        settings, topic, day = self.settings, which.topic, which.day
        archive_expiry.check(self.book.engine, topic, [day])
        cut = index.positions(settings, topic)
        files = index.files_for(settings, topic, day, cut)
        versions = task_versions(self.book.engine, topic, day, since=first_arrival(files))
        spec = TopicStore(self.book.engine).get(topic)
        plan = EnginePlan.of(versions.tasks, settings.limits, spec, versions.ranges)
        filled = [task for task in versions.tasks if (task.task_id, task.version) in versions.filled]
        backwards = EnginePlan.of(filled, settings.limits, spec, versions.filled) if filled else None

        now = self.book.now()
        partitions = {name: Partition.new(settings, name, topic, day, now) for name in (LOGS, TASK_RESULTS)}
        logs, results = (partition.location for partition in partitions.values())
        paths = [settings.hdfs.namenode + file.path for file in files]
        parts = day_job.partitions(self.spark, files, day)
        lines = day_job.unique(day_job.archived(self.spark, paths, cut), which, plan, parts)
        gone = barred(self.book.engine, topic)
        raw_lines, kept = day_job.write_logs(lines, settings.limits, gone, logs)
        if versions.dropped:
            plan, backwards = plan.without(versions.ranges), None
        stores = Stores.of(settings)
        failed, (found, skipped) = day_job.write_results(
            self.spark, plan, versions.tasks, logs, results, stores=stores, parts=parts, backwards=backwards
        )
        record_uncounted(self.book.engine, topic, day, failed)

        for name, partition in partitions.items():
            self.hive.set_partition(name, topic, day, partition.location)
        log.info("%s %s: %d lines, %d unique, from %d files", topic, day, raw_lines, kept, len(files))
        computed = self.book.set_computed(
            day,
            cut={str(number): offset for number, offset in cut.items()},
            run_id=self.run_id,
            tasks_seq=versions.seq,
            raw_lines=raw_lines,
            lines=kept,
            backfills=versions.backfills,
            tallies=tallies.rows(found.to_pylist()),
            skipped=tallies.rows(skipped.to_pylist()),
        )
        store = HdfsStore.of(settings)
        for partition in partitions.values():  # not before: `partitions.restore` shows what the book has
            partition.remove_older(store)
        return computed
