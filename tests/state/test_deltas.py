"""Large blocks take deltas, which folds merge into them; small ones and much of a block do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.merge import merge
from sluice.engine.set_aside import TasksFailed
from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.speed.partition_pass import Gathered
from sluice.speed.state_pass import StatePass
from sluice.state import deltas, merging
from sluice.state.blocks import BlockId, unpack
from sluice.state.changed_periods import KnownPeriods, changed
from sluice.state.merging import Touch, merge_into_blocks
from sluice.state.state import BlockMissing, read_state
from sluice.storage.tables.epochs import CommittedColumns, StatePeriod, is_delta
from tests.state.test_epochs import Book, Cells, partials

PERIOD = (1, 1, 0)
FOLDED = next(seq for seq in range(20, 40) if deltas.folds(seq, BlockId(*PERIOD, 1, 0)))


def series(numbers: Sequence[int]) -> pa.Table:
    return merge(partials((0, number, 1) for number in numbers))


class Layer:
    """A speed layer of one task, whose only period may take deltas; it counts the requests."""

    def __init__(self, seq: int = 0) -> None:
        self.cells, self.book, self.known = Cells(), Book(head=seq), KnownPeriods()
        self.reads = self.writes = 0

    def hbase(self) -> Any:
        return self

    def log(self, topic: str) -> Any:
        return self.book

    def recounts(self, topic: str) -> Any:
        raise NotImplementedError  # nothing is set aside here

    def get(self, *arguments: Any) -> Any:
        self.reads += 1
        return self.cells.get(*arguments)

    def rewrite(self, *arguments: Any) -> None:
        self.writes += 1
        self.cells.rewrite(*arguments)

    def count(self, found: pa.Table, limit: int = 1 << 30) -> None:
        """Count and commit a batch."""
        head = self.book.head
        merging = StatePass(
            self,
            "logs",
            head + 1,
            "t",
            CommittedColumns(head, self.book.ends),
            limit,
            self.known.all(),
            large=self.known.large(),
        )
        columns = [pa.array([PARTIAL]), pa.array([to_ipc(found)]), pa.array([0], pa.int32())]
        rows = merging([pa.RecordBatch.from_arrays(columns, schema=SENT)])
        gathered = Gathered.of(pa.Table.from_batches(rows, FOUND))
        if gathered.failed:
            raise TasksFailed(gathered.failed)
        periods, _ = changed(gathered.stated, head + 1)
        assert self.book.append(head + 1, "t", periods)
        self.known.committed(periods, [])

    def columns(self) -> list[bytes]:
        (cells,) = self.cells.rows.values()
        return sorted(cells)

    def lines(self) -> int:
        found = read_state(self.book, self.cells, [PERIOD])  # type: ignore[arg-type]
        return sum(found.rows()[0].column("lines").to_pylist())


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltas, "LARGE", 4_000)


def layer() -> Layer:
    """Its only block was just written, by a commit at which it is folded, too."""
    made = Layer(FOLDED - 1)
    made.count(series(range(1_000)))
    return made


def steps(made: Layer) -> int:
    """How many batches come before the next fold, which differs from window to window."""
    block = BlockId(*PERIOD, 1, 0)
    return next(n for n in range(100) if deltas.folds(made.book.head + 1 + n, block))


@pytest.mark.slow
def test_a_batch_that_touches_little_of_a_large_block_writes_what_it_adds_without_a_read(large: None) -> None:
    made = layer()
    base = made.columns()[0]
    bytes_ = made.known.all()[PERIOD].bytes
    number = steps(made)
    for _ in range(number):
        made.count(series([3]))
    assert made.reads == 0
    assert [is_delta(name) for name in made.columns()] == [False] + [True] * number
    assert made.known.all()[PERIOD].bytes == bytes_  # of the whole block
    assert made.lines() == 1_000 + number
    made.count(series([4]))  # folds
    assert made.reads == 1
    assert base in made.columns()  # for readers of the commit before
    assert not is_delta(made.columns()[-1])
    assert made.lines() == 1_000 + number + 1
    (cells,) = made.cells.rows.values()
    newest = cells[made.columns()[-1]]
    assert unpack({BlockId(*PERIOD, 1, 0): newest}).num_rows == 1_000
    for _ in range(steps(made) + 1):
        made.count(series([3]))
    assert base not in made.columns()


@pytest.mark.slow
def test_a_small_block_is_read_and_written_whole_with_one_request_each() -> None:
    made = layer()
    assert made.known.all()[PERIOD].bytes < deltas.LARGE
    for _ in range(deltas.FOLD + 2):
        before = made.reads, made.writes
        made.count(series([3]))
        assert (made.reads, made.writes) == (before[0] + 1, before[1] + 1)
    assert not any(is_delta(name) for name in made.columns())
    assert len(made.columns()) == 2


def test_a_batch_that_touches_much_of_a_large_block_writes_it_whole(large: None) -> None:
    made = layer()
    made.count(series(range(500)))
    assert made.reads == 1
    assert not any(is_delta(name) for name in made.columns())


def test_a_driver_that_knows_no_period_reads_it(large: None) -> None:
    made = layer()
    made.known = KnownPeriods()
    made.count(series([3]))
    assert made.reads == 1
    made.count(series([3]))
    assert made.lines() == 1_002


def test_a_block_of_deltas_alone_was_lost(large: None) -> None:
    made = layer()
    base = made.columns()[0]
    made.count(series([3]))
    (cells,) = made.cells.rows.values()
    kept = cells.pop(base)
    with pytest.raises(BlockMissing):
        made.lines()
    cells[base] = kept
    newest = cells.pop(made.columns()[-1])
    assert is_delta(made.columns()[-1]) is False
    assert newest
    with pytest.raises(BlockMissing):
        made.lines()


def test_too_many_series_are_noticed_by_the_next_fold(large: None) -> None:
    made = layer()
    for n in range(steps(made)):
        made.count(series([2_000 + n]), limit=1_000)
    with pytest.raises(TasksFailed, match="series in one period, 1,000 are allowed"):
        made.count(series([3]), limit=1_000)


def test_state_that_is_not_read_counts_for_the_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_BYTES", 100_000)
    touch = Touch(FOLDED + 1, lambda _: 0, {PERIOD: 110_000})
    with pytest.raises(TasksFailed, match="MiB"):
        merge_into_blocks(series([1]), {PERIOD: 1}, lambda _: pytest.fail("read"), touch=touch)


@pytest.mark.slow
def test_a_period_that_is_laid_out_again_takes_the_batch_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of its blocks is folded and outgrown; what the batch adds to the others is not left behind."""
    monkeypatch.setattr(merging, "LIMIT", 2_000)
    state: dict[BlockId, bytes] = {}
    before = series(range(64))
    whole = merge_into_blocks(before, {PERIOD: 4}, lambda _: {})
    layout = next(iter(whole.blocks)).layout
    state |= whole.blocks
    seq = next(
        seq
        for seq in range(1, 999)
        if sum(deltas.folds(seq, BlockId(*PERIOD, layout, n)) for n in range(4)) == 1
    )
    monkeypatch.setattr(deltas, "LITTLE", 0)
    monkeypatch.setattr(merging, "LIMIT", 300)
    touch = Touch(seq, lambda _: 0, {PERIOD: 1_000})
    changes = merge_into_blocks(
        series(range(100)),
        {PERIOD: layout},
        lambda ids: {i: state[i] for i in ids if i in state},
        touch=touch,
    )
    assert not changes.deltas
    found = unpack(changes.blocks)
    assert {row["key"]: row["lines"] for row in found.to_pylist()} == {
        f"series {n}": 2 if n < 64 else 1 for n in range(100)
    }


@pytest.mark.slow
def test_what_grew_is_merged_with_the_deltas_of_blocks_that_the_batch_did_not_touch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = merge_into_blocks(
        series(range(64)), {PERIOD: 4}, lambda _: {}, touch=Touch(1, lambda _: 1)
    ).blocks
    delta = merge_into_blocks(
        series(range(64)), {PERIOD: 4}, lambda _: {}, touch=Touch(2, lambda _: 1)
    ).blocks
    state = {block: data + delta[block] for block, data in whole.items()}
    monkeypatch.setattr(merging, "LIMIT", 300)
    changes = merge_into_blocks(
        series([1]), {PERIOD: 4}, lambda ids: {i: state[i] for i in ids}, touch=Touch(3, lambda _: 1)
    )
    assert {row["key"]: row["lines"] for row in unpack(changes.blocks).to_pylist()} == {
        f"series {n}": 3 if n == 1 else 2 for n in range(64)
    }


def test_a_block_that_every_batch_touches_is_folded_once_in_each_window() -> None:
    for bucket in range(20):
        block = BlockId(*PERIOD, 32, bucket)
        for window in range(1, 10):
            seqs = range(window * deltas.FOLD, (window + 1) * deltas.FOLD)
            assert sum(deltas.folds(seq, block) for seq in seqs) == 1
    # A block that is touched at regular intervals does not miss its folds for ever.
    for every in range(1, 200):
        assert any(deltas.folds(seq, BlockId(*PERIOD, 1, 0)) for seq in range(1, 100 * every, every))


def test_a_period_that_must_be_laid_out_again_takes_no_deltas() -> None:
    known = KnownPeriods()
    known.committed([StatePeriod(*PERIOD, 4, 1, 1, 4 << 17)], [])
    assert known.large() == {PERIOD: 1 << 17}
    known.widen([PERIOD])
    assert known.large() == {}
    known.committed([StatePeriod(*PERIOD, 8, 1, 2, 4 << 17)], [])
    assert known.large() == {PERIOD: 1 << 16}
    known.committed([StatePeriod(*PERIOD, 8, 1, 3, 8 << 10)], [])  # small
    known.committed([StatePeriod(1, 1, 1, 1, 1, 3, 9 << 20)], [])  # a single series
    assert known.large() == {}


def test_several_rows_of_a_series_are_as_new_as_the_newest() -> None:
    rows = pa.concat_tables([series([1, 2]), series([1]), series([2])])
    merged, touched, failures = deltas.combined(rows, np.array([9, 4, 5, 12]))
    assert not failures
    found = dict(zip(merged.column("key").to_pylist(), touched.tolist(), strict=True))
    assert found == {"series 1": 9, "series 2": 12}
