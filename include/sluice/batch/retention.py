"""Retention: results are dropped `retention.days` after the last line of their day arrived.

    The rule goes by arrival, so a log of 1995 that came today is kept as long as one of today. A day of event
    time (UTC) expires as a whole, once all of its lines were counted by commits older than `retention.days`.
    A late line for a day that was not dropped yet keeps the day.

The following is dropped of an expired day: the online and final results in HBase, the state that they were
made from (the speed layer's and that of backfills), the final blocks, and the partition of `task_results`. A
period that lies in several days is dropped with the last of them. The day is noted as dropped for good: it is
not reconciled any more, and not filled backwards. A line that still comes for it is counted from zero, so its
result shows only what came since.

Also dropped at the same age: commits (except the newest and those that the book of days refers to; the sums
of all stay), dead letters, and the ledger's files whose last line is that old. Such a file must not be sent
again, because its lines would count again. Never dropped: the archive in HDFS and Hive's `logs`, which hold
lines and not results, and the tasks.

HBase's own TTL is not used, because it knows cells but no days. A late line would touch some results of an
old day, and the others would expire alone. A block of state could also expire while PostgreSQL says that it
is readable.

Everything may be repeated, and a run that died is repeated: each run finds what is left to drop. Results are
dropped before the state that names them, and what makes blocks readable before the blocks. A crash between
the two leaves columns that nobody reads. A batch that was built on a dropped period cannot commit
(`PeriodsGone`): it is counted again without the period's state.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa

from sluice.engine.rowkey import encode_column
from sluice.runtime.days import days_of
from sluice.runtime.settings import Settings
from sluice.state import state
from sluice.state.blocks import BadBlock, BlockId, period_prefix, unpack
from sluice.state.damage import DAMAGE, damaged
from sluice.state.finals import sweep
from sluice.state.portions import read_portions
from sluice.storage.hbase import NAMES_ONLY, RESULT_FAMILY, RESULTS, STATE, STATE_FAMILY, HBase
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables import history
from sluice.storage.tables.backfills import BackfillPointer, Backfills, days_between
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import PeriodKey, column_seq
from sluice.storage.tables.finals import Finals
from sluice.storage.tables.recounts import Recounts
from sluice.storage.tables.retention import Floor, RetentionBook, expired_days, topics
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore

log = logging.getLogger(__name__)

#: Periods whose pointers are asked for at a time.
PERIODS = 1_000


@dataclass(frozen=True)
class DroppedDays:
    """What a run dropped of one topic."""

    topic: str
    days: list[date]  # those that were not dropped before
    results: int
    blocks: int
    partitions: int
    commits: int
    dead_letters: int
    files: int

    def __str__(self) -> str:
        days = f"{len(self.days)} days" + (f" ({self.days[0]} to {self.days[-1]})" if self.days else "")
        return (
            f"{self.topic}: {days}, {self.results} results, {self.blocks} blocks, "
            f"{self.partitions} partitions, {self.commits} commits, {self.dead_letters} dead letters, "
            f"{self.files} files of the ledger"
        )


def run(settings: Settings, now: datetime | None = None) -> list[DroppedDays]:
    """Drop what is beyond retention, of every topic, and entries of the history that are."""
    oldest = (now or datetime.now(UTC)) - timedelta(days=settings.retention.history_days)
    log.info("history: %d entries dropped", history.drop(engine(settings), oldest))
    before = (now or datetime.now(UTC)) - timedelta(days=settings.retention.days)
    found = []
    with HBase.of(settings) as hbase:
        for topic in topics(engine(settings)):
            found.append(TopicRetention(settings, topic, hbase).drop(before))
            log.info("%s", found[-1])
    return found


class TopicRetention:
    """One topic's retention."""

    def __init__(self, settings: Settings, topic: str, hbase: HBase) -> None:
        self._settings = settings
        self._topic = topic
        self._hbase = hbase
        self._book = RetentionBook(engine(settings), topic)
        self._days = Days(engine(settings), topic)
        self._log = CommitLog(engine(settings), topic)
        self._backfills = Backfills(engine(settings))
        self._tasks = TaskStore(engine(settings))
        self._recounts = Recounts(engine(settings), topic)

    def drop(self, before: datetime) -> DroppedDays:
        floor = self._book.floor(before)
        days: list[date] = []
        results = blocks = partitions = commits = 0
        if floor is not None:
            days, results, blocks, partitions = self._drop_days(floor)
            commits = self._book.prune_commits(floor)
            self._book.prune_epochs()
        return DroppedDays(
            topic=self._topic,
            days=days,
            results=results,
            blocks=blocks,
            partitions=partitions,
            commits=commits,
            dead_letters=self._book.prune_dead_letters(before),
            files=self._book.prune_ledger(before),
        )

    def _drop_days(self, floor: Floor) -> tuple[list[date], int, int, int]:
        expired = expired_days(self._book.last_lines(), floor.end)
        new = [day for day in sorted(expired - self._book.dropped()) if self._mark(day)]
        results = blocks = 0
        for task_id, version in self._book.versions():
            task = self._tasks.version(task_id, version)
            periods = self._book.periods(task_id, version)
            # Read after the periods: a commit in the meantime brings both a period and its day.
            kept = {each.day for each in self._book.last_lines()} - expired
            starts = [start for start in periods if gone(start, task.spec.span.end(start), kept)]
            for begin in range(0, len(starts), PERIODS):
                some = self._drop_periods(task, starts[begin : begin + PERIODS], floor)
                results, blocks = results + some[0], blocks + some[1]
        self._forget_expired({each.day for each in self._book.last_lines()} - expired)
        self._drop_finals(expired)
        return new, results, blocks, self._drop_partitions(expired)

    def _forget_expired(self, kept: Collection[date]) -> None:
        """Take periods off the set-aside list that no rebuild will take, once they lie in no day kept."""
        never = self._recounts.expired() | self._recounts.failed()
        periods = ((key, self._tasks.version(*key[:2]).spec.span.end(key[2])) for key in never)
        self._recounts.forget([key for key, end in periods if gone(key[2], end, kept)])

    def _mark(self, day: date) -> bool:
        with self._days.locked(day):  # not while it is computed or compared
            return bool(self._book.mark_dropped([day]))

    def _drop_periods(self, task: ActiveTask, starts: Sequence[int], floor: Floor) -> tuple[int, int]:
        """Drop these periods of a version; returns how many results and blocks.

        A period that a commit after the floor changed stays: it has a line that came while this runs, for a
        day that had already expired.
        """
        periods = [(task.task_id, task.version, start) for start in starts]
        results = blocks = 0
        snapshot = self._log.snapshot(periods)
        old = {key: p for key, p in snapshot.periods.items() if p.seq <= floor.seq}
        for some in state.in_portions(replace(snapshot, periods=old)):
            results += self._drop_results(task, self._series(some), snapshot.committed_at)
        gone, head = self._book.forget_periods(list(old.values()))
        for key in gone:
            blocks += self._drop_state(key, head)
        for part in read_portions(self._backfills.pointers(periods)):
            newest = self._newest()
            for rows in self._filled(part):
                results += self._drop_results(task, rows, newest)
            self._book.forget_filled(part)
            blocks += self._hbase.delete(STATE, [(p.row.encode(), [p.column.encode()]) for p in part])
        return results, blocks

    def _series(self, blocks: Sequence[BlockId]) -> pa.Table:
        """The names (KEYS) of the blocks' series; those of a period with a lost block are not known any more.

        Its results stay in HBase then: nothing reads them by the period any more.
        """
        left = list(blocks)
        while True:
            try:
                return state.read_blocks(self._log, self._hbase, left).series()
            except DAMAGE:
                gone = {each.key for each in damaged(self._log, self._hbase, {b.period for b in left})}
                if not gone:
                    raise
                left = [block for block in left if block.period not in gone]

    def _drop_state(self, period: PeriodKey, head: int) -> int:
        """Delete the period's columns up to that commit, in any layout; returns how many blocks had some."""
        found = self._hbase.scan(STATE, prefix=period_prefix(period), row_filter=NAMES_ONLY)
        old = ((row, [name for name in cells if column_seq(name) <= head]) for row, cells in found)
        return self._hbase.delete(STATE, [(row, names) for row, names in old if names])

    def _filled(self, pointers: Sequence[BackfillPointer]) -> Iterator[pa.Table]:
        """The rows of these blocks. A block that is gone was deleted by a run that was cut short.

        The series of a damaged one are not known: their results stay in HBase, and nothing reads them by the
        period any more.
        """
        found = self._hbase.get(STATE, [each.row.encode() for each in pointers], [STATE_FAMILY])
        for each in pointers:
            if (data := found.get(each.row.encode(), {}).get(each.column.encode())) is not None:
                try:
                    rows = unpack({BlockId.of(each.period, each.layout, each.bucket): data})
                except BadBlock as error:
                    log.warning("%s: %s: it is dropped without its results", self._topic, error)
                else:
                    yield rows

    def _newest(self) -> datetime:
        """The time of the newest commit."""
        return self._log.snapshot({}).committed_at

    def _drop_results(self, task: ActiveTask, series: pa.Table, newest: datetime) -> int:
        """Delete the results that commits up to that time made, and backfills a millisecond later.

        HBase hides what is older than a deletion. By its own clock, which may be ahead of the writer's, a
        deletion would also hide results of lines that are counted later.
        """
        cells = ((row, [RESULT_FAMILY]) for row in result_rows(task, series))
        return self._hbase.delete(RESULTS, cells, timestamp=round(newest.timestamp() * 1000) + 1)

    def _drop_finals(self, expired: Collection[date]) -> None:
        """Forget the final blocks of periods that lie in no day that is kept, and delete those unused."""
        book = Finals(engine(self._settings), self._topic)
        kept = {each.day for each in self._book.last_lines()} - set(expired)
        days = {each: days_between(each.first_day, each.last_day) for each in book.of_topic()}
        book.forget([each for each, own in days.items() if kept.isdisjoint(own)])
        sweep(self._hbase, book)

    def _drop_partitions(self, expired: Collection[date]) -> int:
        """Drop the partitions of `task_results` that are still there."""
        settings, store = self._settings, HdfsStore.of(self._settings)
        base = f"{settings.hdfs.warehouse}/{settings.hive.database}.db/task_results/topic={self._topic}"
        there = {f"day={day}": day for day in expired}
        found = [there[each.name] for each in store.list(base) if each.name in there]
        if found:
            with Hive(settings) as hive:
                for day in found:
                    hive.drop_partition("task_results", self._topic, day)
                    store.delete(f"{base}/day={day}", recursive=True)
        return len(found)


def gone(start: int, end: int, kept: Collection[date]) -> bool:
    """Whether a period, [start, end) in ms, lies in no day that is kept."""
    return not any(day in kept for day in days_of(start, end))


def result_rows(task: ActiveTask, series: pa.Table) -> Iterator[bytes]:
    """The rows in `results` of these series (KEYS), for every metric of the task."""
    if not series.num_rows:
        return
    table = series.combine_chunks()
    keys, starts = (table.column(name).chunk(0) for name in ("key", "period_start"))
    names = [dimension.name for dimension in task.spec.dimensions]
    for metric in task.spec.metrics:
        yield from encode_column(task.label, names, keys, metric, starts).to_pylist()
