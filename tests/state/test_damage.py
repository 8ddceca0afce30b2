"""Lost and damaged blocks are found, all at once, and only if the newest commit still has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.merge import merge
from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.speed.partition_pass import Gathered
from sluice.speed.state_pass import StatePass
from sluice.state import merging as merging_module
from sluice.state.changed_periods import changed
from sluice.state.damage import damaged, damaged_pointers
from sluice.storage.tables.backfills import BackfillPointer
from sluice.storage.tables.epochs import CommittedColumns, PeriodKey, Snapshot
from tests.state.test_epochs import Book, Cells, partials


class Layer:
    """A speed layer of one task, in memory."""

    def __init__(self) -> None:
        self.cells, self.book = Cells(), Book()

    def hbase(self) -> Any:
        return self.cells

    def log(self, topic: str) -> Any:
        return self.book

    def recounts(self, topic: str) -> Any:
        raise NotImplementedError  # the driver's own work

    def attempt(self, *lines: tuple[int, int, int]) -> Gathered:
        head = self.book.head
        work = StatePass(self, "logs", head + 1, "t", CommittedColumns(head, self.book.ends), 1_000)
        columns = [pa.array([PARTIAL]), pa.array([to_ipc(merge(partials(lines)))]), pa.array([0], pa.int32())]
        rows = work([pa.RecordBatch.from_arrays(columns, schema=SENT)])
        return Gathered.of(pa.Table.from_batches(rows, FOUND))

    def count(self, *lines: tuple[int, int, int]) -> None:
        found = self.attempt(*lines)
        assert not found.damaged.num_rows
        periods, _ = changed(found.stated, self.book.head + 1)
        assert self.book.append(self.book.head + 1, "t", periods)

    def found(self) -> list[PeriodKey]:
        keys = list(self.book.kept)
        return [each.key for each in damaged(self.book, self.cells, keys)]  # type: ignore[arg-type]

    def lose(self, period: int, bucket: int = 0) -> None:
        own = f"1v1/{period * 60_000}/{self.book.kept[1, 1, period * 60_000].layout}/{bucket}"
        del self.cells.rows[own.encode()]


def test_nothing_is_found_where_nothing_is_lost() -> None:
    layer = Layer()
    layer.count((0, 1, 1), (1, 1, 1))
    assert layer.found() == []


def test_each_period_with_a_lost_or_damaged_block_is_found() -> None:
    layer = Layer()
    layer.count(*((period, 1, 1) for period in range(4)))
    layer.lose(0)
    name = b"1v1/120000/1/0"
    layer.cells.rows[name] = dict.fromkeys(layer.cells.rows[name], b"garbage")
    assert layer.found() == [(1, 1, 0), (1, 1, 120_000)]


def test_a_lost_bucket_of_a_wide_period_is_found_and_an_empty_one_is_not_taken_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(merging_module, "LIMIT", 600)
    layer = Layer()
    layer.count(*((0, number, 1) for number in range(9)))
    layout = layer.book.kept[1, 1, 0].layout
    assert layout > 1
    assert layer.found() == []
    for bucket in range(layout):
        row = f"1v1/0/{layout}/{bucket}".encode()
        cells = layer.cells.rows.pop(row)
        assert layer.found() == [(1, 1, 0)]
        layer.cells.rows[row] = cells


def test_a_task_of_a_batch_names_all_damaged_periods_and_writes_nothing() -> None:
    layer = Layer()
    layer.count((0, 1, 1), (1, 1, 1), (2, 1, 1))
    layer.lose(0)
    layer.lose(1)
    before = {row: dict(cells) for row, cells in layer.cells.rows.items()}
    found = layer.attempt((0, 1, 1), (1, 1, 1), (2, 1, 1), (3, 1, 1))
    assert found.damaged.column("period_start").to_pylist() == [0, 60_000]
    assert found.stated.num_rows == 0
    assert layer.cells.rows == before


class Overtaken(Book):
    """A commit replaces the block between the look at the commits and the read."""

    left = 1

    def snapshot(self, wanted: Iterable[PeriodKey]) -> Snapshot:
        seen = super().snapshot(wanted)
        self.head += self.left
        self.left = 0
        return seen


def test_what_a_commit_replaced_meanwhile_is_looked_for_again() -> None:
    layer = Layer()
    layer.count((0, 1, 1))
    book = Overtaken(layer.book.head, layer.book.ends, layer.book.kept)
    cells = Recovering(layer.cells)
    assert damaged(book, cells, list(book.kept)) == []  # type: ignore[arg-type]


class Recovering(Cells):
    """The first read does not find the blocks."""

    def __init__(self, cells: Cells) -> None:
        super().__init__()
        self.rows, self.reads = cells.rows, 0

    def get(self, table: str, rows: Sequence[bytes], columns: Any) -> dict[bytes, dict[bytes, bytes]]:
        self.reads += 1
        return {} if self.reads == 1 else super().get(table, rows, columns)


def test_lost_and_damaged_blocks_of_backfills_are_found() -> None:
    layer = Layer()
    layer.count((0, 1, 1))
    (data,) = layer.cells.rows[b"1v1/0/1/0"].values()
    day = date(2015, 5, 17)
    pointers = []
    for start, own in enumerate((data, b"garbage", None)):
        pointer = BackfillPointer(f"b1v1/{day}/{start}/1/0", 1, 1, day, start, 1, 0, "s:1", 9)
        pointers.append(pointer)
        if own is not None:
            layer.cells.rows[pointer.row.encode()] = {b"s:1": own}
    found = damaged_pointers(layer.cells, pointers)  # type: ignore[arg-type]
    assert [(each.key[2], each.why.split(" is ")[1]) for each in found] == [
        (1, "damaged"),
        (2, "not in HBase"),
    ]
