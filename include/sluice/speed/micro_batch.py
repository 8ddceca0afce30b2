"""The speed layer's micro-batch: lines to committed state to results, each exactly once.

A batch covers an offset range of each partition, which begins where the newest commit ended. It

1. takes the active tasks and how their tuples are routed: a changed task counts from this batch on;
2. counts the lines (`Writer.count`): one pass in the executors removes the doubles and turns the rest into
   partial aggregates. The driver checks the new byte intervals against the whole ledger, repeats the pass if
   a double slipped through, and merges the aggregates into the committed blocks of state. A task that fails
   here is set aside, and the batch is counted again without it;
3. writes the new blocks to HBase, as columns that nobody reads yet;
4. commits in PostgreSQL, in one transaction: the row (topic, seq) with everything that is true because of it.
   A second writer collides here, and stops;
5. projects (`Projector`): writes the results of the touched series, and notes that it did;
6. deletes the replaced columns, learns how to route the next batch, shows the offsets to Kafka, and writes
   the progress file.

If the process dies before step 4, it leaves columns that were never committed, and the next start counts the
same lines again. If it dies after step 4, the results lag behind the state, and the next start projects the
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
from sluice.speed.laps import Laps
from sluice.speed.offsets import TopicOffsets
from sluice.speed.progress import SpeedProgress
from sluice.speed.projector import Projector
from sluice.speed.routed.job import slots
from sluice.speed.routed.routes import Routes
from sluice.speed.routed.topic import TopicRouting
from sluice.speed.spark_pass import run_pass
from sluice.speed.topic_tasks import TopicTasks
from sluice.speed.writer import Counted, Writer, nothing
from sluice.state.backfilled import Backfilled
from sluice.state.state import State
from sluice.storage.backfills import Backfills
from sluice.storage.commits import CommitLog, TopicClaim
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.tasks.spec import ActiveTask
from sluice.tasks.topic import TopicSpec
from sluice.transmission.mac import identity_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

Tasks = Mapping[Version, ActiveTask]


class MicroBatch:
    """Counts the batches of one topic, one after the other.

    It lives from one start to the next, in one thread. Nobody knows how far a failed batch came, so any
    failure ends it: the next start reads the state again.
    """

    def __init__(self, settings: Settings, topic: str, progress: SpeedProgress) -> None:
        self.topic = topic
        self._settings = settings
        self._progress = progress
        database = engine(settings)
        commits = CommitLog(database, topic)
        self._hbase = HBase.of(settings)
        state = State(commits, self._hbase)
        offsets = TopicOffsets(settings, topic)
        self._tasks = TopicTasks(database, topic, commits.patience, progress)
        self._writer = Writer(commits, TopicClaim(database, topic), state, offsets, identity_key(settings))
        backfilled = Backfilled(Backfills(database), self._hbase, topic)
        self._projector = Projector(commits, state, backfilled, self._hbase, self._tasks)
        self._groupings: TopicRouting | None = None
        self._lines_a_record = 1.0  # in the newest batch that had records

    @property
    def position(self) -> dict[str, int]:
        """The offset after the last record that was counted, by partition."""
        return dict(self._writer.position)

    def open(self) -> None:
        """Read the committed state, and finish what was cut short.

        Raises FencedOut while another writer holds the topic, TopicMissing, TopicReplaced.
        """
        for lost in self._writer.open():
            log.error("topic %s: %s", self.topic, lost)
            self._progress.error(self.topic, str(lost))
        self._projector.catch_up(self._writer.seq, self._writer.committed_at)
        self._writer.show()
        log.info(
            "topic %s: writer %s goes on after commit %d", self.topic, self._writer.token, self._writer.seq
        )

    def close(self) -> None:
        self._writer.close()
        self._hbase.close()

    def ends(self) -> dict[str, int]:
        """The offset after each partition's last record. Raises TopicReplaced, TopicMissing."""
        return self._writer.ends()

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
        rests = self._writer.commit(dict(self._writer.position), tasks, nothing(), [])
        self._projector.project(rests)

    def count(self, lines: DataFrame, end: dict[str, int]) -> Mapping[str, int]:
        """Carry out the batch that ends there, step by step, as the module's docstring says.

        Returns what it held (`Gathered.counts`).
        """
        laps = Laps()
        tasks: Tasks = self._tasks.active()
        attempt = partial(self._attempt, lines, self._tasks.format(), self._routes(lines, end), laps)
        laps.lap("tasks")
        counted, tasks, failed = leaving_out(attempt, tasks)
        # Before the commit without them: a crash in between must not leave them active with a gap.
        self._tasks.set_aside(failed)
        blocks = self._writer.write_blocks(counted.changes)
        laps.lap("blocks")
        if records := self._records(end):
            self._lines_a_record = counted.found.counts["records"] / records
        commit = self._writer.commit(end, tasks, counted, blocks)
        laps.lap("commit")
        crash_point("after_commit")
        written = self._projector.project(commit, counted.changes.touched)
        laps.lap("project")
        self._writer.prune()
        laps.lap("prune")
        self._routing(lines).counted(counted.found)
        laps.lap("grouping")
        lag = self._writer.show()
        laps.lap("show")
        self._progress.batch(
            self.topic,
            dict(counted.found.counts),
            seq=commit.seq,
            token=commit.token,
            end=end,
            lag=lag,
            tasks=[task.label for task in tasks.values()],
            blocks=len(blocks),
            results=written,
            committed_at=commit.committed_at.isoformat(),
            grouping=self._routing(lines).shown(self.topic, tasks),
            durations=laps.durations,
        )
        return counted.found.counts

    def _attempt(
        self,
        lines: DataFrame,
        line_format: TopicSpec,
        routes: Callable[[Tasks], Routes | None],
        laps: Laps,
        tasks: Tasks,
    ) -> Counted:
        """Count the batch for these tasks. Raises TasksFailed, which names the tasks to leave out.

        The whole batch is then counted again: a line that was a dead letter because of a task that is set
        aside may be a line to count for every other task.
        """
        plan = EnginePlan.of(tasks.values(), self._settings.limits, line_format)
        return self._writer.count(plan, routes(tasks), partial(run_pass, lines), laps)

    def _routes(self, lines: DataFrame, end: dict[str, int]) -> Callable[[Tasks], Routes | None]:
        """A function that says how the tasks' tuples are routed in the batch that ends at `end`."""
        return partial(
            self._routing(lines).routes,
            default=self._tasks.default_grouping(),
            sources=sorted(map(int, end)),
            lines=round(self._records(end) * self._lines_a_record),
        )

    def _records(self, end: dict[str, int]) -> int:
        """How many Kafka records a batch that ends there has."""
        position = self._writer.position
        return sum(offset - position.get(partition, 0) for partition, offset in end.items())

    def _routing(self, lines: DataFrame) -> TopicRouting:
        if self._groupings is None:
            self._groupings = TopicRouting(self._settings.speed.workers or slots(lines))
        return self._groupings
