"""The projector follows the commits on its own beat, and writes what each commit touched."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.set_aside import Failures, Version
from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.speed import projector as module
from sluice.speed.partition_pass import Gathered
from sluice.speed.projection_pass import ProjectionPass, written
from sluice.speed.projector import Projecting, Projector
from sluice.speed.state_pass import StatePass
from sluice.state.blocks import BlockId
from sluice.state.changed_periods import changed
from sluice.storage.hbase import ONLINE
from sluice.storage.tables.commits import Changed
from sluice.storage.tables.epochs import CommittedColumns, PeriodKey, Snapshot
from sluice.tasks.spec import ActiveTask
from sluice_lab.waiting import SECONDS
from tests.engine.samples import active, spec
from tests.state.aside_list import AsideList
from tests.state.test_epochs import Book, Cells, Killed, partials

CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}


class Log(Book):
    """The commit log, with what is projected."""

    topic = "logs"

    def __init__(self) -> None:
        super().__init__()
        self.shown = 0
        self.opened: dict[Version, int] = {}

    def projected(self) -> int:
        return self.shown

    def set_projected(self, seq: int) -> None:
        self.shown = max(self.shown, seq)

    def changed_since(self, seq: int) -> Changed:
        opened = {version for version, first in self.opened.items() if first > seq}
        keys = [k for k, period in self.kept.items() if period.seq > seq or k[:2] in opened]
        return Changed(self.snapshot(keys), opened)

    def snapshot(self, wanted: Iterable[PeriodKey]) -> Snapshot:
        at = datetime.fromtimestamp(self.head, UTC)
        return Snapshot(CommittedColumns(self.head, self.ends), at, self.periods(wanted))


class Results(Cells):
    """HBase's two tables; the results of each put with its stamp."""

    def __init__(self) -> None:
        super().__init__()
        self.puts: list[tuple[int, dict[str, int]]] = []
        self.away = False

    def put_table(self, table: str, cells: pa.Table, *, timestamp: int) -> int:
        if self.away:
            raise ConnectionError("HBase is away")
        rows = cells.to_pylist()
        found = {row["row"].decode().split("_")[2]: int(row[ONLINE.decode()]) for row in rows}
        self.puts.append((timestamp, found))
        return len(found)


class Filled:
    """What backfills counted: nothing."""

    revision = 0

    def __init__(self) -> None:
        self.unsettled: set[Version] = set()

    def added(self, touched: pa.Table) -> tuple[pa.Table, Failures]:
        return touched, {}

    def pointers(self, wanted: object) -> list[Any]:
        return []


class Layer:
    """A topic of one task that counts by series, without Kafka and Spark."""

    def __init__(self) -> None:
        self.book, self.cells = Log(), Results()
        self.list = AsideList(self.book)
        self.aside: Failures = {}
        self.task = active(spec(dimensions=[CLIENT]))[0]
        self.filled = Filled()
        self.own = 10**6  # the newest commit of this process's writer
        self.projector = self.another()

    def another(self) -> Projector:
        """A projector that has written nothing yet."""
        tasks: Any = SimpleNamespace(versions=self.versions, set_aside=self.aside.update)
        log: Any = self.book
        filled: Any = self.filled
        return Projector(log, filled, self, tasks, newest=lambda: self.own)

    def versions(self, wanted: Iterable[Version]) -> dict[Version, ActiveTask]:
        return dict.fromkeys(wanted, self.task)

    def hbase(self) -> Any:
        return self.cells

    def log(self, topic: str) -> Any:
        return self.book

    def recounts(self, topic: str) -> Any:
        return self.list

    def count(self, *lines: tuple[int, int, int]) -> None:
        """Commit a batch: (period, series, lines)."""
        seq = self.book.head + 1
        merging = StatePass(
            self, "logs", seq, "token", self.book.snapshot([]).readable, 100, self.book.kept.copy()
        )
        columns = [pa.array([PARTIAL]), pa.array([to_ipc(partials(lines))]), pa.array([0], pa.int32())]
        rows = list(merging([pa.RecordBatch.from_arrays(columns, schema=SENT)]))
        periods, _ = changed(Gathered.of(pa.Table.from_batches(rows, FOUND)).stated, seq)
        assert self.book.append(seq, "token", periods)


def test_each_series_that_was_touched_is_written_once_a_beat_with_the_newest_commits_time() -> None:
    layer = Layer()
    layer.count((0, 1, 5), (0, 2, 3))
    layer.count((0, 1, 2), (1, 7, 1))
    assert layer.projector.project() == (2, 3)
    assert layer.cells.puts == [(2000, {"series 1": 7, "series 2": 3, "series 7": 1})]
    assert layer.projector.project() == (2, 0)
    layer.count((0, 2, 4))
    assert layer.projector.project() == (3, 1)  # what is untouched is not written again
    assert layer.cells.puts[1:] == [(3000, {"series 2": 7})]


def test_all_series_of_a_version_that_counts_again_are_written() -> None:
    layer = Layer()
    layer.count((0, 1, 5), (1, 2, 3))
    layer.projector.project()
    layer.count((0, 1, 1))
    layer.book.opened[1, 1] = 2
    assert layer.projector.project() == (2, 2)
    assert layer.cells.puts[1] == (2000, {"series 1": 6, "series 2": 3})


def test_a_projector_that_died_before_it_took_note_writes_the_same_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = Layer()
    layer.count((0, 1, 5))

    def die(point: str) -> None:
        assert point == "projected"
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "crash_point", die)
        with pytest.raises(Killed):
            layer.projector.project()
    assert layer.book.shown == 0
    layer.count((0, 2, 1))
    assert layer.projector.project() == (2, 2)
    assert layer.cells.puts == [(1000, {"series 1": 5}), (2000, {"series 1": 5, "series 2": 1})]


def settled() -> Layer:
    """A layer whose projector knows what it wrote; two series have 5 and 3 lines."""
    layer = Layer()
    layer.count((0, 9, 1))
    layer.projector.project()
    layer.count((0, 1, 5), (0, 2, 3))
    layer.projector.project()
    del layer.cells.puts[:]
    return layer


def test_a_result_that_did_not_change_is_not_written() -> None:
    layer = settled()
    layer.count((0, 1, 0), (0, 2, 4))  # both series are touched
    assert layer.projector.project() == (3, 1)
    assert layer.cells.puts == [(3000, {"series 2": 7})]
    layer.count((0, 1, 0), (0, 2, 0))
    assert layer.projector.project() == (4, 0)
    assert layer.book.shown == 4


def test_what_a_backfill_may_have_changed_is_written() -> None:
    layer = settled()
    layer.filled.unsettled = {(1, 1)}
    layer.filled.revision = 1
    for seq, count in ((3, 1), (4, 1)):  # its results may be on their way
        layer.count((0, 1, 0))
        assert layer.projector.project() == (seq, count)
    layer.filled.unsettled, layer.filled.revision = set(), 2
    for seq, count in ((5, 1), (6, 1), (7, 0)):  # they are there; those of commit 5 may lie below them
        layer.count((0, 1, 0))
        assert layer.projector.project() == (seq, count)


def test_after_a_put_that_failed_everything_touched_is_written() -> None:
    layer = settled()
    layer.count((0, 1, 0), (0, 2, 1))
    layer.cells.away = True
    with pytest.raises(ConnectionError):
        layer.projector.project()
    layer.cells.away = False
    for seq, count in ((3, 2), (4, 2), (5, 0)):  # the put that failed carries the time of commit 3
        assert layer.projector.project() == (seq, count)
        layer.count((0, 1, 0), (0, 2, 0))


def test_what_was_projected_elsewhere_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = settled()
    layer.projector._elsewhere = lambda work, portions: pa.Table.from_pylist(
        [{"written": 2}], module_schema()
    )
    layer.count((0, 1, 0), (0, 2, 0))
    with monkeypatch.context() as patch:
        patch.setattr(module, "PORTIONS_HERE", 0)
        assert layer.projector.project() == (3, 2)
    for seq, count in ((4, 2), (5, 0)):
        layer.count((0, 1, 0), (0, 2, 0))
        assert layer.projector.project() == (seq, count)


def test_a_version_that_counts_again_is_written_whole() -> None:
    layer = settled()
    layer.count((0, 1, 0))
    layer.book.opened[1, 1] = 3
    assert layer.projector.project() == (3, 3)
    for seq, count in ((4, 1), (5, 0)):
        layer.count((0, 1, 0))
        assert layer.projector.project() == (seq, count)


def test_a_new_projector_writes_what_is_touched_whatever_the_one_before_it_wrote() -> None:
    layer = settled()
    layer.projector = layer.another()
    for seq, count in ((3, 1), (4, 1), (5, 0)):  # the newest commit may be another writer's
        layer.count((0, 1, 0))
        assert layer.projector.project() == (seq, count)


def test_a_projector_whose_writer_was_overtaken_writes_nothing_with_the_other_ones_times() -> None:
    layer = settled()
    layer.own = 2
    layer.count((0, 1, 1))  # another writer's commit
    assert layer.projector.project() == (2, 0)
    assert layer.cells.puts == []
    assert layer.book.shown == 2
    layer.own = 3
    assert layer.projector.project() == (3, 1)


def test_cells_carry_the_time_of_the_commit_that_was_found_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that is overtaken meanwhile must have no later time."""
    layer = settled()
    layer.count((0, 1, 1))
    layer.own = 3
    project = ProjectionPass.project

    def later(*arguments: Any) -> tuple[int, Failures]:
        layer.count((0, 1, 1))
        return project(*arguments)

    monkeypatch.setattr(ProjectionPass, "project", later)
    assert layer.projector.project() == (3, 1)
    assert layer.cells.puts == [(3000, {"series 1": 7})]


def test_many_blocks_are_projected_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PORTION_BYTES", 1)
    layer = Layer()
    seen: list[Sequence[Sequence[BlockId]]] = []

    def elsewhere(work: ProjectionPass, portions: Sequence[Sequence[BlockId]]) -> pa.Table:
        seen.append(portions)
        monkeypatch.setattr(
            "sluice.speed.projection_pass._backfilled", lambda *_: layer.projector._backfilled
        )
        rows = [
            {"portion": number, **block._asdict()} for number, own in enumerate(portions) for block in own
        ]
        return pa.Table.from_batches(list(work([pa.RecordBatch.from_pylist(rows)])))

    layer.projector._elsewhere = elsewhere
    layer.count((0, 1, 5), (1, 2, 3))
    assert layer.projector.project() == (1, 2)
    assert seen == []  # a few blocks are not worth a job
    layer.count((0, 1, 5), (1, 2, 3), (2, 3, 1))
    assert layer.projector.project() == (2, 3)
    assert [len(own) for own in seen[0]] == [1, 1, 1]


def test_failures_come_back_from_elsewhere() -> None:
    rows = [
        {"written": 3, "task_id": None, "version": None, "message": None},
        {"written": None, "task_id": 1, "version": 2, "message": "boom"},
        {"written": 4, "task_id": None, "version": None, "message": None},
    ]
    assert written(pa.Table.from_pylist(rows, schema=module_schema())) == (7, {(1, 2): "boom"})


def module_schema() -> pa.Schema:
    from sluice.speed.projection_pass import WRITTEN_ARROW

    return WRITTEN_ARROW


def test_a_task_whose_results_cannot_be_made_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no such result")

    layer = Layer()
    layer.count((0, 1, 5))
    monkeypatch.setattr("sluice.speed.projection_pass.results", fail)
    assert layer.projector.project() == (1, 0)
    assert layer.aside == {(1, 1): "RuntimeError: no such result"}
    assert layer.book.shown == 1


class Beats:
    """A projector that notes when it is asked, and fails the first times."""

    def __init__(self, failures: int = 0) -> None:
        self.at: list[float] = []
        self.failures = failures
        self.again = threading.Semaphore(0)

    def project(self) -> tuple[int, int]:
        self.at.append(time.monotonic())
        self.again.release()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("HBase is away")
        return 1, 1


def projecting(beats: Any, seconds: float = 0.05) -> tuple[Projecting, list[str]]:
    errors: list[str] = []
    progress: Any = SimpleNamespace(
        error=lambda topic, message: errors.append(message), projected=lambda *_: None
    )
    return Projecting("logs", beats, progress, seconds), errors


def test_commits_are_projected_at_most_once_a_beat() -> None:
    beats = Beats()
    one, _ = projecting(beats, 0.2)
    began = time.monotonic()
    one.start()
    for _ in range(20):
        one.committed()
        time.sleep(0.01)
    one.stop(SECONDS)
    took = time.monotonic() - began
    assert 2 <= len(beats.at) <= 2 + took / 0.2  # at its start, after each beat, at its end
    assert beats.at[1] - beats.at[0] >= 0.19


def test_a_projection_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    beats = Beats(failures=2)
    one, errors = projecting(beats)
    one.start()
    assert all(beats.again.acquire(timeout=SECONDS) for _ in range(3))
    one.stop(SECONDS)
    assert errors == ["projection: ConnectionError: HBase is away"] * 2


def test_what_is_committed_is_projected_before_a_stop() -> None:
    beats = Beats()
    one, _ = projecting(beats)
    one.start()
    assert beats.again.acquire(timeout=SECONDS)
    one.committed()
    one.stop(SECONDS)
    assert len(beats.at) >= 2
    assert not one._thread.is_alive()


def test_a_stop_before_the_start_returns() -> None:
    one, _ = projecting(Beats())
    one.stop(SECONDS)


def lost(layer: Layer, start: int) -> None:
    """HBase loses the blocks of a period."""
    for row in [each for each in layer.cells.rows if each.startswith(b"1v1/%d/" % start)]:
        del layer.cells.rows[row]


def test_a_period_whose_block_is_lost_is_set_aside_and_the_others_are_projected() -> None:
    layer = Layer()
    layer.count((0, 1, 5), (1, 2, 3))
    lost(layer, 0)
    assert layer.projector.project() == (1, 1)
    assert layer.cells.puts == [(1000, {"series 2": 3})]
    assert layer.list.why == {(1, 1, 0): "block 1v1/0/1/0 of the state is not in HBase"}
    layer.count((0, 1, 7))  # the period begins anew, and its results wait for the rebuild
    assert layer.projector.project() == (2, 0)
    layer.list.why.clear()
    layer.count((0, 1, 1))
    assert layer.projector.project() == (3, 1)
    assert layer.cells.puts[-1] == (3000, {"series 1": 8})


def test_a_period_whose_block_is_damaged_is_set_aside() -> None:
    layer = Layer()
    layer.count((0, 1, 5), (1, 2, 3))
    (row,) = [each for each in layer.cells.rows if each.startswith(b"1v1/0/")]
    layer.cells.rows[row] = dict.fromkeys(layer.cells.rows[row], b"garbage")
    assert layer.projector.project() == (1, 1)
    assert list(layer.list.why) == [(1, 1, 0)]


def test_everything_lost_is_set_aside_at_once_and_the_projector_goes_on() -> None:
    layer = Layer()
    layer.count(*((period, 1, 1) for period in range(50)))
    layer.cells.rows.clear()
    assert layer.projector.project() == (1, 0)
    assert len(layer.list.why) == 50
    layer.count((60, 1, 1))
    assert layer.projector.project() == (2, 1)
