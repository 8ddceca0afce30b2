"""The speed layer's micro-batch: lines to committed state to results, each exactly once.

A batch covers an offset range of each partition, which begins where the newest commit ended. It

1. takes the active tasks and how their tuples are routed: a changed task counts from this batch on;
2. counts the lines (`Writer.count`), as one Spark job. Its first stage reads the lines from Kafka, removes
   the doubles and turns the rest into partial aggregates. Its last stage merges them into the committed
   blocks of state, and writes the new blocks to HBase as columns that nobody reads yet. A batch of few lines
   goes through the same stages in this process, without a job. The driver checks the new byte intervals
   against the whole ledger, and repeats the job if a double slipped through. A task that fails here is set
   aside, and the batch is counted again without it. Each attempt has a token of its own;
3. commits in PostgreSQL, in one transaction: the row (topic, seq) with everything that is true because of it.
   The attempt's token makes its columns the newest. A second writer collides here, and stops. If retention
   or a rebuild took a period meanwhile, nothing is committed, and the batch is counted again without its
   state;
4. tells the projector, a thread with a beat of its own (`Projecting`): it writes the results of the touched
   series, and notes up to which commit it did;
5. deletes blocks whose layout was replaced, learns how to route the next batch, shows the offsets to Kafka,
   and writes the progress file.

If the process dies before step 3, it leaves columns that were never committed, and the next start counts the
same lines again. If it dies after step 3, the results lag behind the state, and the next start projects the
commits that are not projected yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Version, leaving_out
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.spark.on_demand import OnDemand
from sluice.spark.session import slots
from sluice.speed import observed
from sluice.speed.laps import Laps
from sluice.speed.offsets import TopicOffsets
from sluice.speed.progress import SpeedProgress
from sluice.speed.projector import Projecting, Projector, by_spark
from sluice.speed.routed.topic_routing import TopicRouting
from sluice.speed.source import TopicRange
from sluice.speed.spark_pass import Here, OnExecutors
from sluice.speed.state_pass import Connections
from sluice.speed.topic_tasks import TopicTasks
from sluice.speed.writer import CountedBatch, Writer, nothing
from sluice.state.backfilled import Backfilled
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import Commit, CommitLog, PeriodsGone, TopicClaim
from sluice.tasks.spec import ActiveTask
from sluice.tasks.topic_spec import TopicSpec

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

#: How long a stop waits for the results of what is committed.
PROJECTION_STOP_SECONDS = 10.0

Tasks = Mapping[Version, ActiveTask]


def job_group(topic: str) -> str:
    """Spark's name for the jobs of a topic's batches."""
    return f"count {topic}"


class MicroBatch:
    """Counts the batches of one topic, one after the other.

    It lives from one start to the next, in one thread. Nobody knows how far a failed batch came, so any
    failure ends it: the next start reads the state again.
    """

    def __init__(self, settings: Settings, topic: str, progress: SpeedProgress, spark: OnDemand) -> None:
        self.topic = topic
        self._settings = settings
        self._progress = progress
        database = engine(settings)
        commits = CommitLog(database, topic)
        self._hbase = HBase.of(settings)
        self._spark = spark
        offsets = TopicOffsets(settings, database, topic)
        tasks = side_by_side(settings, spark)
        self._tasks = TopicTasks(database, topic, commits.patience, progress)
        self._writer = Writer(
            commits,
            TopicClaim(database, topic, progress.driver),
            Connections.of(settings),
            offsets,
            tasks=tasks,
        )
        self._projecting = projecting(settings, topic, progress, spark, lambda: self._writer.seq)
        self._routing = TopicRouting(settings.speed.workers or tasks)
        self._lines_a_record = 1.0  # in the newest batch that had records

    @property
    def position(self) -> dict[str, int]:
        """The position after the last record that was counted, by partition."""
        return dict(self._writer.position)

    def open(self) -> None:
        """Read the committed state, and finish what was cut short.

        Raises FencedOut while another writer holds the topic, TopicMissing, KafkaError.
        """
        for lost in self._writer.open():
            log.error("topic %s: %s", self.topic, lost)
            self._progress.error(self.topic, str(lost))
        self._projecting.start()
        self._writer.show()
        log.info(
            "topic %s: writer %s goes on after commit %d", self.topic, self._writer.token, self._writer.seq
        )

    def close(self, seconds: float = 0.0) -> None:
        """Release the topic, and wait at most `seconds` for the projector to end."""
        self._writer.close()
        self._hbase.close()
        self._projecting.stop(seconds)

    def ends(self) -> dict[str, int]:
        """The position after each partition's last record. Raises TopicMissing, KafkaError."""
        return self._writer.ends()

    def waiting(self, end: Mapping[str, int]) -> dict[str, int]:
        """How many Kafka records there are before `end`, by partition."""
        logs, position = self._writer.logs, self._writer.position
        there = {name: to for name, to in end.items() if int(name) in logs}
        return {name: logs[int(name)].records(position.get(name, 0), to) for name, to in there.items()}

    def after(self, records: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        """The positions after so many records of each partition."""
        logs, position = self._writer.logs, self._writer.position
        return {
            **position,
            **{n: logs[int(n)].after(position.get(n, 0), count, ends[n]) for n, count in records.items()},
        }

    def take_up(self) -> None:
        """Commit a change of the tasks while no line comes: a version begins or ends here.

        Without this commit a task on an idle topic would have no first commit, and no backfill could know
        which lines it owns. Nothing is done while lines wait: their batch commits the change.
        """
        if not self._writer.position:
            return
        try:
            tasks = self._tasks.look()
        except DBAPIError as error:
            log.warning("topic %s: cannot look for changed tasks: %s", self.topic, error)
            return
        if tasks.keys() == self._writer.versions or self._writer.show() != 0:
            return
        self._writer.commit(dict(self._writer.position), tasks, nothing())
        self._projecting.committed()

    def count(self, end: dict[str, int]) -> Mapping[str, int]:
        """Carry out the batch that ends there, step by step, as the module's docstring says.

        Returns what it held (`Gathered.counts`).
        """
        laps = Laps()
        tasks: Tasks = self._tasks.active()
        lines = TopicRange.of(self._settings, self.topic, self._writer.position, end, self._writer.logs)
        attempt = partial(self._attempt, lines, self._tasks.format(), end, laps)
        laps.lap("tasks")
        commit = None
        while commit is None:
            counted, tasks, failed = leaving_out(attempt, tasks)
            # Before the commit without them: a crash in between must not leave them active with a gap.
            self._tasks.set_aside(failed)
            crash_point("after_blocks")
            try:
                commit = self._commit(end, tasks, counted)
            except PeriodsGone as gone:  # it is certain that nothing was committed
                log.info("topic %s: %s", self.topic, gone)
                self._writer.forget(gone.periods)
        laps.lap("commit")
        crash_point("after_commit")
        self._projecting.committed()
        self._writer.prune(self._hbase)
        laps.lap("prune")
        self._routing.counted(counted.found)
        laps.lap("grouping")
        lag = self._writer.show()
        laps.lap("show")
        self._show(commit, counted, tasks, lag, laps)
        return counted.found.counts

    def _commit(self, end: dict[str, int], tasks: Tasks, counted: CountedBatch) -> Commit:
        """Commit the batch, and note how many lines its records have. Raises PeriodsGone."""
        if records := sum(self.waiting(end).values()):
            self._lines_a_record = counted.found.counts["lines"] / records
        return self._writer.commit(end, tasks, counted)

    def _show(self, commit: Commit, counted: CountedBatch, tasks: Tasks, lag: int | None, laps: Laps) -> None:
        """Write the batch into the progress file."""
        found = counted.found
        waited = observed.freshness(found.arrived, round(commit.committed_at.timestamp() * 1000))
        self._progress.batch(
            self.topic,
            {
                **found.counts,
                "pass_us": found.pass_us,
                "freshness_ms": waited.milliseconds,
                "unmatched": observed.by_label([found.tallies], "unmatched").get(observed.TOPIC, 0),
            },
            {
                "freshness": waited.lines,
                "dead_reasons": observed.by_reason(found.dead_letters),
                "task_lines": observed.by_label(found.taken, "lines"),
                "task_skipped": observed.by_label(found.taken, "skipped"),
                "task_unmatched": observed.by_label([found.tallies], "unmatched"),
                "task_too_long": observed.by_label([found.tallies], "too_long"),
            },
            seq=commit.seq,
            token=commit.token,
            end=commit.end,
            lag=lag,
            tasks=[task.label for task in tasks.values()],
            blocks=counted.blocks,
            committed_at=commit.committed_at,
            newest_arrival=observed.newest(found.arrived),
            grouping=self._routing.shown(self.topic, tasks),
            durations=laps.durations,
        )

    def _attempt(
        self,
        lines: TopicRange,
        line_format: TopicSpec,
        end: dict[str, int],
        laps: Laps,
        tasks: Tasks,
    ) -> CountedBatch:
        """Count the batch for these tasks. Raises TasksFailed, which names the tasks to leave out.

        The whole batch is then counted again, because a batch counts a task wholly or not at all.
        """
        plan = EnginePlan.of(tasks.values(), self._settings.limits, line_format)
        count = round(sum(self.waiting(end).values()) * self._lines_a_record)
        routes = self._routing.routes(
            tasks,
            default=self._tasks.default_grouping(),
            sources=sorted(map(int, end)),
            lines=count,
        )
        small = routes is None and count < self._settings.speed.small_batch
        run = Here(lines) if small else OnExecutors(self._context(), lines)
        return self._writer.count(plan, routes, run, laps, small=small)

    def _context(self) -> SparkContext:
        """Spark's, which takes the jobs of this thread for the topic's."""
        context = self._spark.session().sparkContext
        context.setJobGroup(job_group(self.topic), job_group(self.topic), interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", self.topic)
        return context


def side_by_side(settings: Settings, spark: OnDemand) -> int:
    """How many Spark tasks run side by side; what a cluster has, only a session knows."""
    return slots(settings.spark.master) or int(spark.session().sparkContext.defaultParallelism)


def projecting(
    settings: Settings,
    topic: str,
    progress: SpeedProgress,
    spark: OnDemand,
    newest: Callable[[], int],
) -> Projecting:
    """The topic's projector, with connections of its own; newest: see `Projector`."""
    database = engine(settings)
    commits = CommitLog(database, topic)
    stores = Connections.of(settings)
    tasks = TopicTasks(database, topic, commits.patience, progress)
    backfilled = Backfilled(Backfills(database), HBase.of(settings), topic)
    elsewhere = by_spark(spark, side_by_side(settings, spark))
    projector = Projector(commits, backfilled, stores, tasks, newest=newest, elsewhere=elsewhere)
    return Projecting(topic, projector, progress, settings.speed.projection_seconds)
