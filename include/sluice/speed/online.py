"""The speed layer's micro-batch: from lines to committed state to online results, each line exactly once.

A batch is an offset range of each partition, beginning where the newest commit ended. It

1. takes the active tasks and compiles them to a plan: a changed task counts from this batch on; one that
   fails in 2 or 4 is left out, and both are done again for the others;
2. makes one pass over the lines in the executors: doubles out, the rest to partial aggregates; for tasks
   whose tuples are routed (`speed.routed`) workers make these in a second stage;
3. checks the new byte intervals against the whole ledger, and repeats the pass with more knowledge if a
   double slipped through (it came from another partition, or from a file that was not at hand);
4. merges the partial aggregates into the committed blocks of state;
5. writes the new blocks to HBase, as columns that nobody reads yet;
6. commits in PostgreSQL: the row (topic, seq) with everything that is true because of it, in one
   transaction. A second writer collides here, and stops;
7. projects: writes the results of the series touched (with what backfills counted of them), and all of a
   version that counts again, notes that it did, deletes the columns replaced, and shows the offsets to Kafka
   and the progress to whoever looks.

Death before 6 leaves columns that were never committed, and the next start counts the same lines anew.
Death after it leaves results that lag behind the state, and the next start projects the commits not yet
projected. Results carry the time of their commit as HBase's timestamp, so what a writer that was fenced out
in the meantime still writes lies beneath what its successor wrote.
"""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from kafka.errors import KafkaError

from sluice.engine.plan import Plan
from sluice.engine.results import results
from sluice.engine.set_aside import Failures, TasksFailed, each_or_all, leaving_out
from sluice.engine.wire import FOUND, FOUND_ARROW
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.speed.doubles import gather
from sluice.speed.ledger import ByteLedger
from sluice.speed.offsets import TopicOffsets, TopicReplaced, starting_offsets
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.progress import Progress
from sluice.speed.routed.groupings import Groupings
from sluice.speed.routed.job import slots, two_stages
from sluice.speed.routed.routes import Routes
from sluice.state.backfilled import Backfilled
from sluice.state.blocks import BlockId, Changes, merge_into_blocks, periods, unpack
from sluice.state.cells import online_cells
from sluice.state.state import State, portions
from sluice.storage.backfills import Backfills
from sluice.storage.commits import Commit, CommitLog, DayLines, LedgerRow, TopicClaim, Version
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.postgres import engine, patiently
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore
from sluice.tasks.topic import TopicSpec
from sluice.tasks.topics import TopicStore
from sluice.transmission.records import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

EPOCH = date(1970, 1, 1)
# In ms, HBase's unit: a backfill writes results a millisecond after the newest commit, and before the next.
COMMITS_APART = timedelta(milliseconds=2)


class Closed(RuntimeError):
    """The speed layer is stopping: this batch is left to its successor."""


class MicroBatch:
    """The function that Spark calls for each micro-batch of one topic, with all the state of this writer.

    It lives from one start of the query to the next. Whatever fails leaves it in doubt, so a failure ends
    it: the next start reads the state afresh, under a new token.
    """

    def __init__(self, settings: Settings, topic: str, checkpoint: Path, progress: Progress) -> None:
        self.topic = topic
        self.token = secrets.token_hex(8)
        self.failure: Exception | None = None
        self._settings = settings
        self._checkpoint = checkpoint
        self._progress = progress
        self._log = CommitLog(engine(settings), topic)
        self._tasks = TaskStore(engine(settings))
        self._topics = TopicStore(engine(settings))
        self._format: TopicSpec | None = None
        self._hbase = HBase.of(settings)
        self._state = State(self._log, self._hbase)
        self._backfilled = Backfilled(Backfills(engine(settings)), self._hbase, topic)
        self._offsets = TopicOffsets(settings, topic)
        self._claim = TopicClaim(engine(settings), topic)
        self._gate = threading.Lock()
        self._closed = False
        self._ledger = ByteLedger()
        self._recent: list[tuple[str, str]] = []  # the files that the newest batch touched
        self._seq = 0
        self._committed_at = datetime.fromtimestamp(0, UTC)
        self._position: dict[str, int] = {}
        self._topic_id = ""
        self._groupings: Groupings | None = None
        self._open: set[Version] = set()
        self._known: dict[Version, ActiveTask] = {}

    def open(self) -> dict[str, int]:
        """Read the committed state and finish what was cut short; the offsets to start from.

        Raises FencedOut while another writer holds the topic, TopicMissing, TopicReplaced.
        """
        self._claim.take()
        head = self._log.head()
        bounds = self._offsets.bounds()
        if head is not None:
            if head.topic_id != bounds.topic_id:
                raise TopicReplaced(self.topic, f"its id is {bounds.topic_id}, not {head.topic_id}")
            self._seq, self._committed_at = head.seq, head.committed_at
        self._topic_id = bounds.topic_id
        self._position, lost = starting_offsets(self.topic, head.end if head else {}, bounds)
        for loss in lost:
            log.error("topic %s: %s", self.topic, loss)
            self._progress.error(self.topic, str(loss))
        self._ledger = ByteLedger.from_rows(vars(row) for row in self._log.ledger())
        self._open = self._log.open_versions()
        self._project_missed()
        self._show()
        log.info("topic %s: writer %s goes on after commit %d", self.topic, self.token, self._seq)
        return dict(self._position)

    def close(self, seconds: float) -> None:
        """Let the batch under way finish, for so many seconds, then let go of all; no other batch begins."""
        finished = self._gate.acquire(timeout=seconds) if seconds else self._gate.acquire(blocking=False)
        already, self._closed = self._closed, True
        if finished:
            self._gate.release()
        if not already:
            self._claim.release()
            with suppress(KafkaError, OSError):
                self._offsets.close()
            self._hbase.close()

    def __call__(self, lines: DataFrame, batch_id: int) -> None:
        with self._gate:
            if self._closed or self.failure is not None:
                raise Closed(self.topic)
            try:
                self._count(lines, end_offsets(self._checkpoint, self.topic, batch_id))
            except Exception as error:
                self.failure = error
                raise

    def _count(self, lines: DataFrame, end: dict[str, int]) -> None:
        clock = _Clock()
        tasks = {
            (task.task_id, task.version): task
            for task in patiently(partial(self._tasks.active, self.topic), self._log.patience)
        }
        self._known |= tasks
        if self._format is None:  # a topic may be described until the first of its lines is read
            self._format = patiently(partial(self._topics.settle, self.topic), self._log.patience)
        described = patiently(partial(self._topics.get, self.topic), self._log.patience)
        if self._groupings is None:
            self._groupings = Groupings(self._settings.speed.workers or slots(lines))
        routes = partial(
            self._groupings.routes,
            default=described.grouping,
            sources=sorted(map(int, end)),
            lines=sum(offset - self._position.get(partition, 0) for partition, offset in end.items()),
        )
        clock.lap("tasks")
        attempt = partial(self._attempt, lines, clock, routes)
        (found, ledger, changes), tasks, aside = leaving_out(attempt, tasks)
        # Before the commit without them: death between the two must not leave them active with a gap.
        self._set_aside(aside)
        seq = self._seq + 1
        pointers = self._state.write(seq, self.token, changes.blocks)
        clock.lap("blocks")
        commit = self._commit(seq, end, tasks, found, ledger)
        self._log.append(
            replace(
                commit,
                blocks=pointers,
                dropped=[block.row for block in changes.removed],
                built_on=self._state.built_on(changes.blocks, changes.removed),
            )
        )
        self._committed(commit, changes, ledger)
        self._state.committed(pointers, changes.blocks, changes.removed)
        clock.lap("commit")
        crash_point("after_commit")
        written = self._project(changes.touched) + self._project_reopened(commit)
        self._log.set_projected(seq)
        clock.lap("project")
        self._state.prune()
        clock.lap("prune")
        self._groupings.counted(found)
        clock.lap("grouping")
        lag = self._show()
        clock.lap("show")
        self._progress.batch(
            self.topic,
            dict(found.counts),
            seq=seq,
            token=self.token,
            end=end,
            lag=lag,
            tasks=[task.label for task in tasks.values()],
            blocks=len(pointers),
            results=written,
            committed_at=self._committed_at.isoformat(),
            grouping=self._groupings.shown(self.topic, tasks),
            durations=clock.laps,
        )

    def take_up(self) -> None:
        """Commit a change of the tasks while no line comes: a version is valid, or over, from here on.

        Without it a task on a topic that rests would have no first commit, and no backfill could know which
        lines are its own. Nothing is done while a batch runs or has lines to count: it brings the change.
        """
        if not self._gate.acquire(blocking=False):
            return
        try:
            if self._closed or self.failure is not None or not self._position:
                return
            tasks = {(task.task_id, task.version): task for task in self._tasks.active(self.topic)}
            if tasks.keys() == self._open or self._show() != 0:
                return
            nothing, ledger = Gathered.of(FOUND_ARROW.empty_table()), ByteLedger()
            commit = self._commit(self._seq + 1, dict(self._position), tasks, nothing, ledger)
            try:
                self._log.append(commit)
                self._known |= tasks
                self._seq, self._committed_at = commit.seq, commit.committed_at
                self._open = set(commit.tasks)
                self._project_reopened(commit)
                self._log.set_projected(commit.seq)
            except Exception as error:  # made or not: the next start will know
                self.failure = error
                raise
        finally:
            self._gate.release()

    def _attempt(
        self,
        lines: DataFrame,
        clock: _Clock,
        routes: Callable[[Mapping[Version, ActiveTask]], Routes | None],
        tasks: Mapping[Version, ActiveTask],
    ) -> tuple[Gathered, ByteLedger, Changes]:
        """What the batch holds and what it changes; TasksFailed names tasks that it must be done without.

        Nothing of it counts yet. It is done again as a whole, for a line may be a dead letter because of a
        task that is set aside, and for every other task it is then none.
        """
        plan = Plan.of(tasks.values(), self._settings.limits, self._format)
        work = PartitionPass(plan, self.topic, ByteLedger().to_table(), routes(tasks))
        found, ledger = gather(partial(_run, lines, work), self._ledger, self._recent)
        clock.lap("pass")
        if found.failed:
            raise TasksFailed(found.failed)
        layouts = self._state.layouts(set(periods(found.partials)[0]))
        series = self._settings.limits.series
        changes = merge_into_blocks(found.partials, layouts, self._state.load, series)
        clock.lap("merge")
        return found, ledger, changes

    def _set_aside(self, failures: Failures) -> None:
        """Show on these tasks why they are not counted any more; from the commit on they are not."""
        for (task_id, version), message in failures.items():
            self._progress.error(self.topic, f"task {task_id}v{version} was set aside: {message}")
            patiently(partial(self._tasks.set_aside, task_id, version, message), self._log.patience)

    def _commit(
        self,
        seq: int,
        end: dict[str, int],
        tasks: Mapping[Version, ActiveTask],
        found: Gathered,
        ledger: ByteLedger,
    ) -> Commit:
        # Later than every commit before, whatever the clocks say: it orders the results in HBase.
        now = datetime.now(UTC)
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        return Commit(
            seq=seq,
            token=self.token,
            topic_id=self._topic_id,
            committed_at=max(now, self._committed_at + COMMITS_APART),
            start={partition: self._position.get(partition, 0) for partition in end},
            end=end,
            tasks=sorted(tasks),
            counts=found.counts,
            ledger=[LedgerRow(**row) for row in ledger.to_rows()],
            opened=sorted(tasks.keys() - self._open),
            closed=sorted(self._open - tasks.keys()),
            days=[
                DayLines(
                    EPOCH + timedelta(days=row["day"]), row["partition"], row["lines"], row["last_offset"]
                )
                for row in found.days.to_pylist()
            ],
            dead_letters=found.dead_letters.to_pylist(),
        )

    def _committed(self, commit: Commit, changes: Changes, ledger: ByteLedger) -> None:
        self._seq, self._position = commit.seq, dict(commit.end)
        self._committed_at = commit.committed_at
        self._open = set(commit.tasks)
        self._recent = ledger.files()
        self._ledger.update(ledger)

    def _project(self, touched: pa.Table) -> int:
        """Write the online results of these series; how many. Tasks whose results raise are set aside."""
        touched, failures = self._backfilled.added(touched)
        self._set_aside(failures)
        versions = set(zip(*(touched.column(n).to_pylist() for n in ("task_id", "version")), strict=True))
        for version in versions - self._known.keys():
            self._known[version] = patiently(partial(self._tasks.version, *version), self._log.patience)
        known = {version: self._known[version] for version in versions}
        found, failures = each_or_all(partial(results, tasks=known), touched)
        self._set_aside(failures)
        if not found:
            return 0
        rows = pa.concat_tables(found)
        stamp = round(self._committed_at.timestamp() * 1000)
        return self._hbase.put(RESULTS, online_cells(rows), timestamp=stamp)

    def _project_missed(self) -> None:
        """Project the blocks of commits whose projection was cut short."""
        projected = self._log.projected()
        if projected >= self._seq:
            return
        written = self._project_rows(self._log.rows_since(projected))
        self._log.set_projected(self._seq)
        self._state.prune()
        log.info("topic %s: %d results of commits %d to %d", self.topic, written, projected + 1, self._seq)

    def _project_reopened(self, commit: Commit) -> int:
        """Write what versions that this commit opened again did not show before; how many results."""
        return self._project_rows(self._log.rows_reopened(commit.seq - 1)) if commit.opened else 0

    def _project_rows(self, rows: Sequence[str]) -> int:
        """Write the online results of all series in these rows of the state; how many."""
        written = 0
        for some in portions(self._log.pointers_at(rows)):
            self._state.layouts({pointer.period for pointer in some})
            written += self._project(unpack(self._state.load(BlockId.parse(each.row) for each in some)))
            self._state.evict()
        return written

    def _show(self) -> int | None:
        """Show Kafka's lag tools how far this is; how many records are still to come, None if unknown."""
        try:
            self._offsets.commit(self._position)
            ends = self._offsets.ends()
        except KafkaError as error:
            log.warning("topic %s: offsets not shown to Kafka: %s", self.topic, error)
            return None
        return sum(max(0, end - self._position.get(str(at), 0)) for at, end in ends.items())


def end_offsets(checkpoint: Path, topic: str, batch_id: int) -> dict[str, int]:
    """Where a batch ends: Spark writes it down before it runs the batch.

    The third line of ``offsets/<batch>`` is the source's; the first two are a version and metadata.
    """
    written = (checkpoint / "offsets" / str(batch_id)).read_text().splitlines()
    return {partition: int(offset) for partition, offset in json.loads(written[2])[topic].items()}


def by_identity(lines: DataFrame) -> DataFrame:
    """The same lines, dealt out so that lines of one identity meet."""
    from pyspark.sql import functions as F

    values = [  # `get` is null where a record lacks the header; `[0]` would be an error
        F.expr(f"get(filter(headers, h -> h.key = '{name}'), 0).value") for name in IDENTITY
    ]
    return lines.repartition(*values)


def _run(lines: DataFrame, work: PartitionPass, known: pa.Table, dealt: bool) -> Gathered:
    work = replace(work, known=known)
    if dealt:
        lines = by_identity(lines)
    if work.routes is not None:
        if dealt:
            # A router goes by the order of its tuples, and a shuffle gives none. If Spark repeats a lost task
            # of the first stage, each tuple must go where it went before, or a worker that is done lacks it.
            lines = lines.sortWithinPartitions("partition", "offset")
        return Gathered.of(two_stages(lines, work, work.routes.workers))

    def function(batches: Any) -> Any:
        yield from work(batches)

    return Gathered.of(lines.mapInArrow(function, FOUND).toArrow())


class _Clock:
    """Milliseconds from one lap to the next."""

    def __init__(self) -> None:
        self.laps: dict[str, int] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.laps[name] = self.laps.get(name, 0) + round((now - self._last) * 1000)
        self._last = now
