"""Whatever attempts, crashes and zombies leave in HBase, what is read is what was committed.

What HBase loses is found by whoever meets it (`damage`); its period is set aside, and begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluice.engine.merge import merge
from sluice.engine.schema import partials_schema
from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.speed import state_pass
from sluice.speed.partition_pass import Gathered
from sluice.speed.state_pass import StatePass
from sluice.speed.writer import damage_of
from sluice.state import deltas
from sluice.state import merging as merging_module
from sluice.state.changed_periods import KnownPeriods, changed, outgrown
from sluice.state.damage import damaged
from sluice.state.dealing import Dealing
from sluice.state.state import BlockMissing, StateSuperseded, read_state
from sluice.storage.hbase import STATE_FAMILY
from sluice.storage.tables.epochs import (
    NOBODY,
    CommittedColumns,
    Epochs,
    PeriodKey,
    Snapshot,
    StatePeriod,
    column,
    column_seq,
    delta_column,
)
from sluice.storage.tables.recounts import BlockDamage
from tests.examples import examples

TASKS = 2
PERIODS = 3


def test_a_column_is_ordered_by_its_sequence_number() -> None:
    assert column(7, "ab") < column(10, "aa")
    assert column_seq(column(7, "ab")) == 7


def test_a_column_is_readable_if_its_epoch_has_its_token() -> None:
    epochs = Epochs.of([(4, NOBODY), (1, "a"), (6, "b")])
    assert [epochs.token(seq) for seq in range(8)] == ["", "a", "a", "a", "", "", "b", "b"]
    assert epochs.then(7, "b") is epochs
    assert epochs.then(8, "c") == Epochs((1, 4, 6, 8), ("a", "", "b", "c"))
    row = {column(seq, token): b"" for seq in range(1, 9) for token in ("a", "b")}
    for head, newest in ((0, None), (2, 2), (3, 3), (5, 3), (6, 6), (7, 7)):
        found = CommittedColumns(head, epochs).current(row, since=1)
        assert found == ([] if newest is None else [column(newest, "a" if newest < 4 else "b")])
    assert CommittedColumns(5, epochs).current(row, since=4) == []
    stale = CommittedColumns(5, epochs).stale(row, [column(3, "a")])
    assert set(stale) == {name for name in row if column_seq(name) <= 5} - {column(3, "a")}


def test_a_block_is_its_newest_committed_base_and_the_committed_deltas_after_it() -> None:
    epochs = Epochs.of([(1, "a"), (6, "b")])
    base, old = column(4, "a"), [column(2, "a"), delta_column(3, "a")]
    row = [*old, base, delta_column(5, "a"), delta_column(6, "a"), delta_column(6, "b"), delta_column(8, "b")]
    assert CommittedColumns(3, epochs).current(row, since=1) == old
    assert CommittedColumns(4, epochs).current(row, since=1) == [base]
    assert CommittedColumns(7, epochs).current(row, since=1) == [
        base,
        delta_column(5, "a"),
        delta_column(6, "b"),
    ]
    assert CommittedColumns(7, epochs).stale(row, [base, row[3], row[5]]) == [*old, delta_column(6, "a")]
    # Deltas alone belong to a block that has no base: its period began before, its first series came later.
    assert CommittedColumns(7, epochs).current(row, since=5) == [delta_column(5, "a"), delta_column(6, "b")]
    # A base includes the delta of its own commit.
    assert CommittedColumns(4, epochs).current([*row, delta_column(4, "a")], since=1) == [base]


class Killed(Exception):
    """The process died between two puts."""


class Cells:
    """HBase's state table in memory; it may fail after so many puts."""

    def __init__(self) -> None:
        self.rows: dict[bytes, dict[bytes, bytes]] = {}
        self.left = -1

    def get(self, table: str, rows: Sequence[bytes], columns: Any) -> dict[bytes, dict[bytes, bytes]]:
        assert columns == [STATE_FAMILY]
        return {row: dict(self.rows[row]) for row in rows if self.rows.get(row)}

    def rewrite(self, table: str, rows: Iterable[tuple[bytes, dict[bytes, bytes], Sequence[bytes]]]) -> None:
        for row, cells, gone in rows:
            if self.left == 0:
                raise Killed
            self.left -= 1
            self.rows.setdefault(row, {}).update(cells)
            for name in gone:
                self.rows[row].pop(name, None)


@dataclass
class Book:
    """The commit log in memory."""

    head: int = 0
    ends: Epochs = field(default_factory=Epochs)
    kept: dict[PeriodKey, StatePeriod] = field(default_factory=dict)

    def newest(self) -> int:
        return self.head

    def periods(self, wanted: Iterable[PeriodKey]) -> dict[PeriodKey, StatePeriod]:
        return {key: self.kept[key] for key in wanted if key in self.kept}

    def snapshot(self, wanted: Iterable[PeriodKey]) -> Snapshot:
        return Snapshot(CommittedColumns(self.head, self.ends), datetime.now(UTC), self.periods(wanted))

    def set_aside(self, damages: Iterable[BlockDamage]) -> set[PeriodKey]:
        """Take away the state of periods that are as they were read; returns them."""
        gone = {each.key for each in damages if self.kept.get(each.key) == each.of}
        for key in gone:
            del self.kept[key]
        return gone

    def append(self, seq: int, token: str, periods: Sequence[StatePeriod]) -> bool:
        """Commit, unless another writer was first or a period is gone."""
        for period in periods:
            before = self.kept.get(period.key)
            if period.since < seq and (before is None or before.since != period.since):
                return False
        if seq != self.head + 1:
            return False
        self.head, self.ends = seq, self.ends.then(seq, token)
        self.kept |= {period.key: period for period in periods}
        return True


class OneWriter:
    """A writer's memory, and the attempt that it has not committed yet."""

    def __init__(self, book: Book, number: int) -> None:
        self.number, self.attempts = number, 0
        self.seq, self.epochs, self.known = book.head, book.ends, KnownPeriods()
        self.attempted = 0
        self.token = f"w{number}.0"
        self.passes: list[tuple[StatePass, pa.RecordBatch]] = []
        self.batch: pa.Table | None = None
        self.found: Gathered | None = None


series = st.lists(
    st.tuples(st.integers(0, PERIODS - 1), st.integers(0, 12), st.integers(1, 9)), min_size=1, max_size=8
)


def partials(lines: Iterable[tuple[int, int, int]]) -> pa.Table:
    rows = [
        {"task_id": 1, "version": 1, "period_start": period * 60_000, "key": f"series {key}", "lines": count}
        for period, key, count in lines
    ]
    return pa.Table.from_pylist(rows, schema=partials_schema())


class Writers(RuleBasedStateMachine):
    """Writers count batches, die in the middle of them, and go on as zombies."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(merging_module, "LIMIT", 600)  # so that a few series outgrow a block
        self.patch.setattr(state_pass, "MOST_CELL", 700)
        self.patch.setattr(deltas, "LARGE", 500)  # so that all blocks take deltas
        self.patch.setattr(deltas, "LITTLE", 0)
        self.patch.setattr(deltas, "FOLD", 3)
        self.patch.setattr("sluice.state.state.BYTES_A_PUT", 1)
        self.cells, self.book = Cells(), Book()
        self.writers = [OneWriter(self.book, 0)]
        self.truth: dict[tuple[int, str], tuple[int, int]] = {}  # lines, and the commit that touched it last

    def teardown(self) -> None:
        self.patch.undo()

    def hbase(self) -> Any:
        return self.cells

    def log(self, topic: str) -> Any:
        return self.book

    def recounts(self, topic: str) -> Any:
        raise NotImplementedError  # nothing is set aside here

    @rule(lines=series, which=st.integers(0, 9), crash=st.none() | st.integers(0, 3))
    def attempt(self, lines: list[tuple[int, int, int]], which: int, crash: int | None) -> None:
        """A writer, old or new, counts a batch, once more if it has counted one that is not committed."""
        writer = self.writers[which % len(self.writers)]
        if writer.attempted == writer.seq + 1:
            writer.attempts += 1
            writer.token = f"w{writer.number}.{writer.attempts}"
        writer.attempted = writer.seq + 1
        writer.batch, writer.found, writer.passes = merge(partials(lines)), None, []
        spread = writer.known.spread()
        merging = StatePass(
            stores=self,
            topic="logs",
            seq=writer.seq + 1,
            token=writer.token,
            readable=CommittedColumns(writer.seq, writer.epochs),
            series=1_000,
            periods=writer.known.all(),
            spread=frozenset(spread),
            large=writer.known.large(),
        )
        for target, own in Dealing(TASKS, spread)(writer.batch):
            columns = [pa.array([PARTIAL]), pa.array([to_ipc(own)]), pa.array([target], pa.int32())]
            writer.passes.append((merging, pa.RecordBatch.from_arrays(columns, schema=SENT)))
        self.cells.left = -1 if crash is None else crash
        try:
            rows = [row for merging, part in writer.passes for row in merging([part])]
        except (Killed, BlockMissing, StateSuperseded):
            return
        finally:
            self.cells.left = -1
        found = Gathered.of(pa.Table.from_batches(rows, FOUND))
        if found.damaged.num_rows:
            writer.known.forget(self.set_aside(map(damage_of, found.damaged.to_pylist())))
            return
        writer.found = found

    def set_aside(self, damages: Iterable[BlockDamage]) -> set[PeriodKey]:
        """What the periods had is a rebuild's to count again; here it is gone."""
        gone = self.book.set_aside(damages)
        starts = {start for *_, start in gone}
        self.truth = {name: value for name, value in self.truth.items() if name[0] not in starts}
        return gone

    @rule(which=st.integers(0, 99))
    def hbase_loses_a_row(self, which: int) -> None:
        if self.cells.rows:
            rows = sorted(self.cells.rows)
            del self.cells.rows[rows[which % len(rows)]]

    @rule(which=st.integers(0, 9), task=st.integers(0, 9))
    def a_task_runs_again(self, which: int, task: int) -> None:
        """Spark repeats a task, in time or long after its batch was committed."""
        writer = self.writers[which % len(self.writers)]
        if not writer.passes:
            return
        merging, part = writer.passes[task % len(writer.passes)]
        try:
            list(merging([part]))
        except StateSuperseded:
            assert self.book.head >= merging.seq
        except BlockMissing:
            changed = (self.book.kept.get(key) != each for key, each in merging.periods.items())
            assert self.book.head >= merging.seq or any(changed)

    @rule(which=st.integers(0, 9))
    def commit(self, which: int) -> None:
        writer = self.writers[which % len(self.writers)]
        if writer.found is None or writer.batch is None:
            return
        periods, late = changed(writer.found.stated, writer.seq + 1)
        if late:
            writer.known.widen(late)
            writer.found = None
            return
        if not self.book.append(writer.seq + 1, writer.token, periods):
            writer.found = None
            return
        for row in writer.batch.to_pylist():
            name = row["period_start"], row["key"]
            self.truth[name] = self.truth.get(name, (0, 0))[0] + row["lines"], self.book.head
        writer.seq += 1
        writer.epochs = writer.epochs.then(writer.seq, writer.token)
        writer.known.committed(periods, outgrown(writer.found.stated))
        for old in writer.found.outgrown.to_pylist():
            self.cells.rows.get(old["row"], {}).pop(old["column"], None)
        writer.found = None

    @rule(batches=st.lists(series, min_size=1, max_size=4))
    def the_newest_writer_goes_on(self, batches: list[list[tuple[int, int, int]]]) -> None:
        for lines in batches:
            self.attempt(lines, len(self.writers) - 1, None)
            self.commit(len(self.writers) - 1)
            self.what_is_read_is_what_was_committed()

    @precondition(lambda self: len(self.writers) < 4)
    @rule()
    def another_writer_starts(self) -> None:
        """The one before may live on, and knows nothing of it."""
        self.writers.append(OneWriter(self.book, len(self.writers)))

    @rule(start=st.integers(0, PERIODS - 1), whole=st.booleans())
    def retention(self, start: int, whole: bool) -> None:
        """A period is dropped, and its columns too unless the run dies in between."""
        key = (1, 1, start * 60_000)
        if self.book.kept.pop(key, None) is None:
            return
        self.truth = {name: value for name, value in self.truth.items() if name[0] != key[2]}
        for row, cells in self.cells.rows.items():
            if whole and row.startswith(b"1v1/%d/" % key[2]):
                for name in [name for name in cells if column_seq(name) <= self.book.head]:
                    del cells[name]

    @invariant()
    def what_is_read_is_what_was_committed(self) -> None:
        keys = [(1, 1, start * 60_000) for start in range(PERIODS)]
        try:
            found = read_state(self.book, self.cells, keys)  # type: ignore[arg-type]
        except BlockMissing:
            assert self.set_aside(damaged(self.book, self.cells, keys))  # type: ignore[arg-type]
            found = read_state(self.book, self.cells, keys)  # type: ignore[arg-type]
        rows, touched, failures = found.rows()
        assert not failures
        assert rows.num_rows == len(self.truth)
        for row, seq in zip(rows.to_pylist(), touched.tolist(), strict=True):
            assert (row["lines"], seq) == self.truth[row["period_start"], row["key"]]


Writers.TestCase.settings = settings(examples(60), stateful_step_count=25)
TestWriters = pytest.mark.slow(Writers.TestCase)
