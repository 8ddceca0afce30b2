"""Fills a task backwards: counts lines from before the task version's first commit.

The version's *boundary* is where its first commit began: an offset for each partition. The backfill owns the
lines below the boundary, the speed layer owns those from there on, and no line has both owners. A double has
one owner too, because the copy that came first is the one that counts, both here (`day_job.unique`) and in
the speed layer (its ledger). What lies below the boundary never changes, so filling a day twice gives the
same. For each day

1. the engine counts the archive's records of that day below the boundary, for this version alone, into blocks
   of the day;
2. the blocks are written to HBase's `state`, in rows and a column of their own that nobody reads yet;
3. in one PostgreSQL transaction they replace the day's blocks, if there were any (`Filling.replace`). The
   speed layer's projector adds them to all that it projects from then on;
4. the results of the day's series are projected from both states;
5. in another transaction the day is noted as projected. From then on the batch layer counts it too, and if it
   had computed the day before, the day is marked;
6. columns of the day that nothing points to are deleted, including those that a crash between 2 and 3 left.

Two processes write a result, but it is never wrong for good. Say the pointers are replaced at T. The
projector reads the newest commit first, then the pointers, and its cells carry that commit's time. If it
reads the pointers after T, its cells include the day. If it reads them before T, its commit was made before
T, too. But step 4 reads the newest commit after T, so it finds that commit in the state. It writes with a
timestamp a millisecond later than the newest commit (commits are two apart). So its cells lie above those of
every commit that they include, and below those of every later commit.

A crash before step 3 changes nothing. After it the day lags: it is marked as not projected, and is not
compared. A repeated run goes on with the days that its backfill has not finished: it projects those that lag,
and fills the rest. Two backfills of a version wait for each other, and one that lost its lock can replace
nothing (`Filling`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypeVar

from sluice.archive import index
from sluice.batch.backfill.day_count import DayCount, day_prefix, prune
from sluice.batch.backfill.projection import Projection
from sluice.batch.damage import damaged_file
from sluice.batch.reckoned import Parts, Told, gathered
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import of_version
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.state.portions import read_portions
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_expiry, tallies
from sluice.storage.tables.backfills import (
    Backfill,
    Backfills,
    BackfillState,
    DaysDropped,
    FilledDay,
    Filling,
)
from sluice.storage.tables.days import Days
from sluice.storage.tables.erasures import Erasures
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
log = logging.getLogger(__name__)

# Time for a version that was just applied to get its first commit (with the next batch, or within seconds
# without one), and for an archiver that is behind to catch up.
WAIT_SECONDS = 600.0
POLL_SECONDS = 1.0
# What Spark says of an error in a Python worker; the traceback's last line has the class and the message.
TRACEBACK = "Traceback (most recent call last)"
RAISED = re.compile(r"^(?:\w+\.)*(?P<kind>\w+): (?P<said>.+)$", re.MULTILINE)
JAVA = re.compile(r"\n\s+at ")


class NotYet(RuntimeError):
    """What a backfill needs did not come in time."""


class ErasureCutShort(RuntimeError):
    """An erasure died while it replaced a file: the sums are to become less by what it noted."""

    def __init__(self, number: int, topic: str) -> None:
        super().__init__(
            f"erasure {number} of topic {topic!r} was cut short, and the sums wait for a file that it began: "
            "give the same `sluice erase` command again, then ask for the backfill once more"
        )


def run(spark: SparkSession, settings: Settings, number: int) -> Backfill:
    """Carry out a backfill, or what is left of it; returns it as the book has it then.

    Raises UnknownBackfill, NotYet, DaysDropped, DaysExpired, ErasureCutShort, what the task raises on the
    lines, and what the stores raise while a daemon is away.
    """
    book = Backfills(engine(settings))
    backfill = book.get(number)
    if backfill.state == BackfillState.FINISHED:
        log.info("backfill %d of %s is finished already", number, backfill.label)
        return backfill
    book.set_running(number)
    try:
        with book.filling(backfill) as filling, HBase.of(settings) as hbase:
            _Run.of(spark, settings, book, backfill, hbase).fill(filling)
    except Exception as error:
        damage = damaged_file(settings, backfill.topic, error)
        book.set_failed(number, damage or explained(error))
        raise
    book.set_finished(number)
    return book.get(number)


def explained(error: Exception) -> str:
    """What to tell the person who asked for the backfill."""
    text = str(error)
    _, _, trace = text.partition(TRACEBACK)  # that of a Python worker; Java's own follows it
    raised = list(RAISED.finditer(JAVA.split(trace)[0]))
    if raised:
        return f"{raised[-1]['kind']}: {raised[-1]['said']}"[:1000]
    return f"{type(error).__name__}: {text}"[:1000]


@dataclass(frozen=True)
class _Run:
    """What the days of one backfill share."""

    spark: SparkSession
    settings: Settings
    book: Backfills
    backfill: Backfill
    hbase: HBase
    task: ActiveTask
    boundary: dict[int, int]
    own: EnginePlan

    @classmethod
    def of(
        cls, spark: SparkSession, settings: Settings, book: Backfills, backfill: Backfill, hbase: HBase
    ) -> _Run:
        days = Days(book.engine, backfill.topic)
        if dropped := [day for day in backfill.days if days.dropped(day)]:
            raise DaysDropped(dropped)
        archive_expiry.check(book.engine, backfill.topic, backfill.days)
        # None runs beside this: it has the topic's lock then.
        for dead in sorted(Erasures(book.engine).noted(backfill.topic)):
            raise ErasureCutShort(dead, backfill.topic)
        task = TaskStore(book.engine).version(backfill.task_id, backfill.version)
        boundary = wait_for(
            lambda: book.boundary(backfill.task_id, backfill.version),
            f"task {backfill.label} has counted nothing yet: the speed layer takes a task up with its next "
            "batch; see whether it runs (`sluice status`), and the task is active (`sluice tasks list`)",
        )
        below = {int(partition): offset for partition, offset in boundary.items()}
        wait_for(
            lambda: archived_to(index.positions(settings, backfill.topic), below) or None,
            f"the archive of {backfill.topic} has not reached the task's first commit: see the archiver "
            "(`sluice status`)",
        )
        spec = TopicStore(book.engine).get(backfill.topic)
        return cls(
            spark=spark,
            settings=settings,
            book=book,
            backfill=backfill,
            hbase=hbase,
            task=task,
            boundary=below,
            own=EnginePlan.of([task], settings.limits, spec),
        )

    def fill(self, filling: Filling) -> None:
        projection = Projection(self.book, self.hbase, self.backfill.topic, self.task)
        done = [each.day for each in self._filled() if each.projected]
        for day in self.backfill.days:
            if day not in done:
                self._fill(day, filling, projection)
                done.append(day)
            self.book.set_done_days(self.backfill.id, len(done))

    def _filled(self) -> list[FilledDay]:
        """The days that an earlier try of this backfill filled."""
        number, version = self.backfill.id, (self.backfill.task_id, self.backfill.version)
        return [
            each
            for each in self.book.filled(self.backfill.topic)
            if each.backfill_id == number
            and (each.task_id, each.version) == version
            and each.day in self.backfill.days
        ]

    def _fill(self, day: date, filling: Filling, projection: Projection) -> None:
        lines = 0
        if not any(each.day == day for each in self._filled()):
            told = self.spark.sparkContext.accumulator({}, Told())
            count = DayCount(self.spark, self.settings, self.hbase, self.backfill.topic, self.boundary)
            pointers, lines = count.write(day, self.own, self.backfill.id, told.add)
            crash_point("backfill_blocks")
            filling.replace(day, pointers, lines, *self._outcomes(told.value))
            crash_point("backfill_replaced")
        pointers = self.book.pointers_of(self.backfill.task_id, self.backfill.version, day)
        written = 0
        for some in read_portions(pointers):
            filling.hold()
            written += projection.project(some)
        filling.set_projected(day)
        prefix = day_prefix(self.version, day)
        prune(self.hbase, prefix, self.book.rows_at(prefix))
        log.info(
            "%s %s: %d lines, %d blocks, %d results", self.backfill.label, day, lines, len(pointers), written
        )

    def _outcomes(self, parts: Parts) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What became of the day's lines for this version, as rows: tallies and samples."""
        found, skipped = (
            tallies.rows(table.filter(of_version(table, *self.version)).to_pylist())
            for table in gathered(parts)
        )
        return found, skipped

    @property
    def version(self) -> tuple[int, int]:
        return self.task.task_id, self.task.version


def archived_to(positions: dict[int, int], boundary: dict[int, int]) -> bool:
    """Whether everything below the boundary is archived."""
    return all(positions.get(partition, 0) >= offset for partition, offset in boundary.items())


def wait_for(look: Callable[[], T | None], otherwise: str, seconds: float = WAIT_SECONDS) -> T:
    """Wait until `look` finds something, and return it. Raises NotYet."""
    deadline = time.monotonic() + seconds
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise NotYet(otherwise)
        time.sleep(POLL_SECONDS)
    return found
