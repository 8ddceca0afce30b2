"""Backfills on the running stack: periods are whole and lines count once, whatever dies."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from sluice.batch import offline
from sluice.batch.backfill import backfill
from sluice.batch.backfill.day_count import day_prefix
from sluice.batch.retention import TopicRetention
from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.engine.rowkey import RowKey
from sluice.engine.set_aside import Failures
from sluice.engine.wire import FOUND, PARTIAL, rows_of
from sluice.quality.reconcile import reconcile
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered
from sluice.speed.projector import Projector
from sluice.speed.state_pass import Connections, StatePass
from sluice.speed.writer import COMMITS_APART, damage_of
from sluice.stack.environment import own_environment
from sluice.state.backfilled import Backfilled
from sluice.state.changed_periods import KnownPeriods, changed, outgrown
from sluice.state.state import BlockMissing
from sluice.storage.hbase import ONLINE, RESULTS, STATE, HBase
from sluice.storage.hive import Hive
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import Backfill, Backfills
from sluice.storage.tables.commits import Commit, Version
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import CommittedColumns, Epochs
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.spec import ActiveTask, TaskSpec, TopicSpec
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import IDENTITY
from tests.quality.two_layers import Line, TwoLayers, _days

pytestmark = pytest.mark.stack

DAY = date(2015, 5, 17)
SECONDS = 240
KILLED = -signal.SIGKILL
PATH = {"delimiter": " ", "index": 6}
SIZE = {"delimiter": " ", "index": 9}


def no_failures(failures: Failures) -> None:
    assert failures == {}


class Layers(TwoLayers):
    """Two layers; the online one keeps its state in blocks, as the speed layer does."""

    def __init__(self, settings: Settings, topic: str, spark: SparkSession) -> None:
        super().__init__(settings, topic)
        self.spark = spark
        self.hbase = HBase.of(settings)
        self.book = Backfills(self.database)
        self.days = Days(self.database, topic)
        self._epochs, self._known = Epochs(), KnownPeriods()
        self._projector = self._new_projector()
        self._committed_at = datetime.fromtimestamp(0, UTC)
        self._file = 0

    def _new_projector(self) -> Projector:
        tasks: Any = SimpleNamespace(versions=self._versions, set_aside=no_failures)
        stores = Connections.of(self.settings)
        backfilled = Backfilled(self.book, stores.hbase(), self.topic)
        return Projector(self.log, backfilled, stores, tasks, newest=self.log.newest)

    def task(self, name: str, period: str = "31d") -> TaskSpec:
        """A task by path; two such tasks differ only in their names and count alike."""
        return TaskSpec.model_validate(
            {
                "topic": self.topic,
                "name": f"{self.topic}_{name}",
                "period": period,
                "dimensions": [{"name": "path", "extract": PATH}],
                "measure": {**SIZE, "type": "number"},
                "metrics": ["count", "sum", "min", "max", "avg"],
            }
        )

    def lines(self, count: int, day: date = DAY, start: int = 0) -> list[Line]:
        """Lines of a day, in a file of their own."""
        self._file += 1
        made, offset = [], 0
        begin = datetime(day.year, day.month, day.day, 10, tzinfo=UTC)
        for n in range(start, start + count):
            stamp = (begin + timedelta(seconds=n)).strftime("%d/%b/%Y:%H:%M:%S +0000")
            text = f'h - - [{stamp}] "GET /p{n % 7} HTTP/1.1" 200 {n}'.encode()
            made.append((f"f{self._file}.log", offset, text))
            offset += len(text) + 1
        return made

    def count(self, records: pa.RecordBatch) -> None:
        """Count one micro-batch: merge it into blocks, commit it, project it."""
        found, ends = identify(records, self.topic)
        fresh = self._ledger.claim(*(found.column(name) for name in IDENTITY), ends)
        unique = found.filter(pa.array(fresh))
        tasks = {(task.task_id, task.version): task for task in self.tasks.active(self.topic)}
        plan = EnginePlan.of(tasks.values(), self.settings.limits, TopicSpec(name=self.topic))
        counted = count(unique, plan)
        self._seq += 1
        stated, token = self._merged(counted.partials)
        periods, _ = changed(stated, self._seq)
        now = datetime.now(UTC).replace(microsecond=0)  # a clock that is behind HBase's
        self._committed_at = max(now, self._committed_at + COMMITS_APART)
        open_ = self.log.open_versions()
        end = dict(self.counted)
        for partition in np.unique(found.column("partition").to_numpy()).tolist():
            end[str(partition)] = self.next[partition]
        self.log.append(
            Commit(
                seq=self._seq,
                token=token,
                topic_id=self.topic_id,
                committed_at=self._committed_at,
                start=dict(self.counted),
                end=end,
                tasks=list(tasks),
                counts={"lines": len(found), "doubled": 0, "counted": len(unique), "dead": 0},
                periods=periods,
                opened=sorted(set(tasks) - open_),
                closed=sorted(open_ - set(tasks)),
                days=_days(unique, counted.event_ms, counted.reason),
            )
        )
        self.counted = end
        self._epochs = self._epochs.then(self._seq, token)
        self._known.committed(periods, outgrown(stated))
        self._projector.project()

    def _merged(self, partials: pa.Table) -> tuple[pa.Table, str]:
        """Merge the batch into the blocks, as `Writer.count` does; returns STATED and the attempt's token."""
        while True:
            token = secrets.token_hex(8)
            merging = StatePass(
                stores=Connections.of(self.settings),
                topic=self.topic,
                seq=self._seq,
                token=token,
                readable=CommittedColumns(self._seq - 1, self._epochs),
                series=self.settings.limits.series,
                periods=self._known.all(),
            )
            rows = [rows_of([(PARTIAL, partials)], 0)]
            found = Gathered.of(pa.Table.from_batches(merging(rows), FOUND))
            if not found.damaged.num_rows:
                return found.stated, token
            lost = [damage_of(row) for row in found.damaged.to_pylist()]
            self._known.forget(Recounts(self.database, self.topic).set_aside(lost))

    def _versions(self, wanted: Iterable[Version]) -> dict[Version, ActiveTask]:
        return {version: self.tasks.version(*version) for version in set(wanted)}

    def restart(self) -> None:
        """Restart the speed layer: it has what was committed, and nothing in memory."""
        head = self.log.head()
        self._seq = head.seq if head else 0
        self._epochs, self._known, self._ledger = self.log.epochs(), KnownPeriods(), ByteLedger()
        self._projector = self._new_projector()

    def ask(self, name: str, first: date = DAY, last: date = DAY) -> Backfill:
        task = self.tasks.get(f"{self.topic}_{name}")
        return self.book.request(
            task.task_id, task.version, topic=self.topic, first_day=first, last_day=last, user="test"
        )

    def run(self, number: int, fault: str = "") -> int:
        done = subprocess.run(
            [sys.executable, "jobs/backfill.py", "--id", str(number)],
            cwd=self.settings.root,
            env={**os.environ, **own_environment(self.settings), "SLUICE_FAULT": fault},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        sys.stderr.write(done.stderr[-4000:])  # pytest shows it if the test fails
        return done.returncode

    def fill(self, name: str, first: date = DAY, last: date = DAY) -> Backfill:
        asked = self.ask(name, first, last)
        backfill.run(self.spark, self.settings, asked.id)
        return self.book.get(asked.id)

    def nightly(self, day: date = DAY) -> None:
        offline.run(self.spark, self.settings, self.topic, [day], secrets.token_hex(4))

    def online(self, name: str) -> dict[tuple[str, str, int], bytes]:
        """The task's online results: (path, metric, period start) -> text."""
        task = self.tasks.get(f"{self.topic}_{name}")
        prefix = f"{task.task_id}v{task.version}_".encode()
        found = {}
        for row, cells in self.hbase.scan(RESULTS, prefix=prefix, columns=[ONLINE]):
            key = RowKey.decode(row)
            found[key.dimensions[0][1], key.metric, key.period_start] = cells[ONLINE]
        return found

    def agree(self, name: str) -> None:
        """The task shows the same as its twin, which was there from the first line on."""
        assert self.online(name) == self.online("twin") != {}


@pytest.fixture
def layers(stack: Settings, spark: SparkSession) -> Iterator[Layers]:
    made = Layers(stack, f"backfill_{secrets.token_hex(4)}", spark)
    made.apply(made.task("twin"))
    yield made
    made.hbase.close()
    made.forget()


def born_late(layers: Layers, name: str = "new", before: Sequence[Line] | None = None) -> None:
    """A task that begins in the middle of its period, after half of the lines."""
    layers.both(before if before is not None else layers.lines(300))
    layers.apply(layers.task("twin"), layers.task(name))
    layers.both(layers.lines(100, start=300))
    assert layers.online(name) != layers.online("twin")


def test_the_period_in_which_a_task_was_born_is_whole_and_late_lines_stay_right(layers: Layers) -> None:
    born_late(layers)
    done = layers.fill("new")
    assert (done.state, done.done_days, done.message) == ("finished", 1, None)
    layers.agree("new")
    layers.both(layers.lines(50, start=150))  # the next micro-batches add to both parts
    layers.agree("new")
    layers.both(layers.lines(50, DAY + timedelta(days=1)))  # and also in a day that was not filled
    layers.agree("new")
    assert layers.book.filled(layers.topic)[0].lines == 300


def test_lines_that_come_twice_are_counted_once_on_either_side(layers: Layers) -> None:
    first = layers.lines(200)
    layers.both(first)
    layers.both(first[50:150])  # read again before the task began
    layers.apply(layers.task("twin"), layers.task("new"))
    layers.both(first[100:])  # and again after it began: the ledger knows them
    layers.both(layers.lines(10, start=200))
    layers.fill("new")
    layers.agree("new")


def test_filling_again_changes_nothing_and_other_days_add_up(layers: Layers) -> None:
    second = DAY + timedelta(days=1)
    layers.both(layers.lines(100, second))
    born_late(layers)
    layers.fill("new", DAY, second)
    layers.agree("new")
    layers.fill("new", second, second)
    layers.agree("new")
    pointers = layers.book.pointers([(p.task_id, p.version, p.period_start) for p in _pointers(layers)])
    prefix = day_prefix((pointers[0].task_id, 1), second).encode()
    cells = dict(layers.hbase.scan(STATE, prefix=prefix))
    kept = {(p.row.encode(), p.column.encode()) for p in pointers}
    assert {(row, name) for row, names in cells.items() for name in names} <= kept


def _pointers(layers: Layers) -> list[sa.Row[tuple[object, ...]]]:
    t = schema.backfill_blocks
    with layers.database.connect() as connection:
        return list(connection.execute(sa.select(t).where(t.c.topic == layers.topic)))


@pytest.mark.parametrize("fault", ["backfill_blocks", "backfill_replaced"])
def test_a_backfill_killed_at_the_worst_moment_is_finished_by_the_next(layers: Layers, fault: str) -> None:
    born_late(layers)
    asked = layers.ask("new")
    assert layers.run(asked.id, fault) == KILLED
    assert layers.book.get(asked.id).state == "running"
    assert bool(_pointers(layers)) == (fault == "backfill_replaced")
    layers.nightly()  # what it computes now will be computed again
    if fault == "backfill_replaced":
        assert layers.days.marked() == [DAY]
    layers.both(layers.lines(20, start=500))
    backfill.run(layers.spark, layers.settings, asked.id)
    layers.agree("new")
    columns = [
        name for _, cells in layers.hbase.scan(STATE, prefix=f"b{asked.label}/".encode()) for name in cells
    ]
    assert len(columns) == len(_pointers(layers))  # the blocks of the killed try are gone


def test_both_layers_agree_on_a_filled_day(layers: Layers) -> None:
    """A new task with too long a dimension on an old line takes the line from no other task."""
    old = layers.lines(100)
    for agent in ("x" * 2000, "curl"):
        name, offset, last = old[-1]
        text = f'h - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "{agent}"'.encode()
        old.append((name, offset + len(last) + 1, text))
    layers.both(old)
    by_agent = layers.task("new", "1h").model_dump(mode="json", exclude_none=True)
    by_agent["dimensions"] = [{"name": "agent", "extract": {"delimiter": " ", "index": 10}}]
    layers.apply(layers.task("twin"), TaskSpec.model_validate(by_agent))
    layers.both([("late.log", 0, old[0][2] + b' "a"')])
    layers.nightly()
    assert layers.days.marked() == []
    layers.fill("new")
    assert {path for path, *_ in layers.online("new")} == {'"curl"', '"a"'}
    assert layers.days.marked() == [DAY]
    layers.nightly()
    assert layers.days.marked() == []
    entry = layers.days.get(DAY)
    assert entry is not None
    outcome = reconcile(layers.settings, layers.topic, DAY, entry.cut)
    assert (outcome.outcome, outcome.differing) == ("agrees", 0), outcome.message


def test_a_task_that_fails_on_the_archive_says_so(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    born_late(layers)
    monkeypatch.setenv("SLUICE_LIMITS__SERIES", "3")
    asked = layers.ask("new")
    assert layers.run(asked.id) == 1
    failed = layers.book.get(asked.id)
    assert failed.state == "failed"
    assert "about 7 series in one period, 3 are allowed" in (failed.message or "")
    assert layers.book.filled(layers.topic) == []


def test_what_is_beyond_retention_is_dropped_in_both_layers(layers: Layers) -> None:
    second = DAY + timedelta(days=1)
    layers.apply(layers.task("twin", "1h"), layers.task("long"))
    layers.both(layers.lines(50))
    layers.both(layers.lines(50, second))
    layers.apply(layers.task("twin", "1h"), layers.task("long"), layers.task("new", "1h"))
    layers.both(layers.lines(1, second, start=50))
    layers.fill("new", DAY, second)
    for day in (DAY, second):
        layers.nightly(day)
    # Everything is old except the newest commit, which has a line of the second day.
    with layers.database.begin() as connection:
        t = schema.commits
        old = sa.update(t).where(t.c.topic == layers.topic, t.c.seq < 3)
        connection.execute(old.values(committed_at=t.c.committed_at - timedelta(days=500)))
    retention = TopicRetention(layers.settings, layers.topic, layers.hbase)
    before = datetime.now(UTC) - timedelta(days=400)
    dropped = retention.drop(before)
    assert dropped.days == [DAY]
    assert dropped.partitions == 1
    assert (dropped.results, dropped.blocks) > (0, 0)
    for name in ("twin", "new"):
        starts = {start for _, _, start in layers.online(name)}
        assert {datetime.fromtimestamp(start / 1000, UTC).date() for start in starts} == {second}
    assert layers.online("long")  # its period of 31 days has lines of the day that is kept
    with Hive(layers.settings) as hive:
        rows = "SELECT count(*) FROM {} WHERE topic = %(topic)s AND day = %(day)s"
        where = {"topic": layers.topic, "day": DAY.isoformat()}
        assert hive.query(rows.format("task_results"), where).scalar() == 0
        assert hive.query(rows.format("logs"), where).scalar() == 50
    again = retention.drop(before)
    assert (again.days, again.results, again.blocks, again.partitions, again.commits) == ([], 0, 0, 0, 0)
    _count_a_line_of_the_dropped_day(layers)


def _count_a_line_of_the_dropped_day(layers: Layers) -> None:
    """The speed layer still knows the day's old periods: they must not come back.

    After a restart it counts from nothing; the day's lines are proved, but no results are compared.
    """
    late = layers.records(layers.lines(1, start=99))
    layers.archive(late)
    with pytest.raises(BlockMissing, match="retention dropped it"):
        layers.count(late)
    layers.restart()
    layers.count(late)
    begin = datetime(DAY.year, DAY.month, DAY.day, 10, tzinfo=UTC).timestamp() * 1000
    online = layers.online("twin")
    assert {key: online[key] for key in online if key[2] == begin and key[1] == "count"} == {
        ("/p1", "count", begin): b"1"
    }
    assert layers.days.marked() == [DAY]
    layers.nightly()
    entry = layers.days.get(DAY)
    assert entry is not None
    outcome = reconcile(layers.settings, layers.topic, DAY, entry.cut)
    assert (outcome.outcome, outcome.compared) == ("agrees", 0), outcome.message
