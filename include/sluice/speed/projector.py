"""Projects committed state to the online results, on a beat of its own.

It follows the commits: the writer never waits for it, and it never holds the writer up. Its work can be done
again, so two projectors harm nothing. Each writes cells with the time of a commit as HBase's timestamp, made
of that commit's state or of a later one: the cells of the one that is behind lie below the other's.

It writes what changed since it wrote last (`state.written`). So it must know that no other projector's cells
lie above its own. That is why it projects nothing beyond the newest commit of its own process's writer: of
two writers only one goes on committing, and the projector of the other has no later time to write with.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.engine.set_aside import Failures
from sluice.runtime.backoff import Backoff
from sluice.runtime.crash_points import crash_point
from sluice.spark.on_demand import OnDemand
from sluice.spark.workers import with_metrics
from sluice.speed.pace import pause_after
from sluice.speed.progress import SpeedProgress
from sluice.speed.projection_pass import BLOCKS, WRITTEN, ProjectionPass, written
from sluice.speed.state_pass import StateStores
from sluice.speed.topic_tasks import TopicTasks
from sluice.state.backfilled import Backfilled
from sluice.state.blocks import BlockId
from sluice.state.state import in_portions
from sluice.state.written import Written
from sluice.storage.tables.commits import CommitLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: Blocks are projected in portions of about PORTION_BYTES, more than PORTIONS_HERE of them by the executors.
PORTION_BYTES = 1 << 20
PORTIONS_HERE = 2
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0

#: Projects portions of blocks elsewhere; yields rows of WRITTEN.
Elsewhere = Callable[[ProjectionPass, Sequence[Sequence[BlockId]]], pa.Table]


def on_executors(
    spark: SparkSession, tasks: int, work: ProjectionPass, portions: Sequence[Sequence[BlockId]]
) -> pa.Table:
    """Project the portions by a Spark job of `tasks` tasks."""
    from pyspark.sql import functions as F

    rows = [(number, *block) for number, blocks in enumerate(portions) for block in blocks]
    frame = spark.createDataFrame(rows, BLOCKS).repartitionById(tasks, F.col("portion") % tasks)
    return frame.mapInArrow(with_metrics(work), WRITTEN).toArrow()


def by_spark(spark: OnDemand, tasks: int) -> Elsewhere:
    """Projects portions on the executors; the first time it may have to start Spark."""
    return lambda work, portions: on_executors(spark.session(), tasks, work, portions)


class Projector:
    """Writes the results of one topic's series, including what backfills counted of them.

    It is used by one thread at a time, and so are the `stores`.
    """

    def __init__(
        self,
        commits: CommitLog,
        backfilled: Backfilled,
        stores: StateStores,
        tasks: TopicTasks,
        *,
        newest: Callable[[], int],
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """newest: the newest commit that this process's writer made, or began with."""
        self._commits = commits
        self._backfilled = backfilled
        self._stores = stores
        self._tasks = tasks
        self._newest = newest
        self._elsewhere = elsewhere
        self._written = Written()

    def project(self) -> tuple[int, int]:
        """Project the commits that are not projected yet.

        Returns the newest, and how many results were written: those that changed, of the series that these
        commits touched, and of each version that they opened again. Tasks whose results cannot be made are
        set aside.
        """
        projected = self._commits.projected()
        changed = self._commits.changed_since(projected)
        head = changed.snapshot.head
        if head <= projected or head > self._newest():
            return projected, 0
        versions = {key[:2] for key in changed.snapshot.periods}
        tasks = self._tasks.versions(versions)
        stamp = round(changed.snapshot.committed_at.timestamp() * 1000)
        work = ProjectionPass(
            self._stores, self._commits.topic, projected, head, stamp, changed.reopened, tasks
        )
        try:
            found, failures = self._project(work, list(in_portions(changed.snapshot, PORTION_BYTES)))
        except BaseException:
            self._written.forget(head)  # some of it may be written, now or later
            raise
        self._tasks.set_aside(failures)
        crash_point("projected")
        self._commits.set_projected(head)
        return head, found

    def _project(self, work: ProjectionPass, portions: Sequence[Sequence[BlockId]]) -> tuple[int, Failures]:
        if self._elsewhere is not None and len(portions) > PORTIONS_HERE:
            self._written.forget(work.commit)
            return written(self._elsewhere(work, portions))
        if work.reopened:  # their results are written whole, because nobody knows what became of them
            self._written.forget(work.commit)
        results, failures = 0, Failures()
        for blocks in portions:
            some, failed = work.project(blocks, self._backfilled, self._written)
            results, failures = results + some, failures | failed
        return results, failures


class Projecting:
    """A thread that projects a topic's commits, at most once every `seconds`."""

    def __init__(self, topic: str, projector: Projector, progress: SpeedProgress, seconds: float) -> None:
        self._topic = topic
        self._projector = projector
        self._progress = progress
        self._seconds = seconds
        self._due, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"projector-{topic}", daemon=True)
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def start(self) -> None:
        """Project what is not projected yet, and from now on what is committed."""
        self._due.set()
        self._thread.start()

    def committed(self) -> None:
        """There is a new commit."""
        self._due.set()

    def stop(self, seconds: float) -> None:
        """Wait at most `seconds` until what is committed is projected. The next start projects the rest."""
        self._stopping.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        last = False
        while not last:
            self._due.wait()
            self._due.clear()
            last = self._stopping.is_set()
            pause = self._beat()
            self._stopping.wait(pause)

    def _beat(self) -> float:
        """Project once; returns how long to pause then."""
        began = time.monotonic()
        try:
            seq, results = self._projector.project()
        except Exception as error:  # whatever it was: it is tried again, and the writer goes on
            log.exception("topic %s: results are not projected", self._topic)
            self._progress.error(self._topic, f"projection: {type(error).__name__}: {error}"[:1000])
            self._due.set()
            return self._backoff.pause()
        self._backoff.reset()
        took = time.monotonic() - began
        self._progress.projected(self._topic, seq, results, round(took * 1000))
        return pause_after(took, self._seconds)
