"""What a batch costs that touches little of much state: blocks that take deltas, and blocks written whole."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.speed.laps import Laps
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.state_pass import StatePass
from sluice.state import deltas
from sluice.state.dealing import Dealing
from sluice.state.state import read_state
from sluice.storage.tables.epochs import CommittedColumns, Snapshot
from sluice_lab.bench.emulated import MemoryLog, NothingAside
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.workers import PLAN, partials, writer

NAME = "deltas"
SERIES, TOUCHED = 100_000, 1_000
WARM, ROUNDS = 8, 32
#: Of so many rounds, after this one the states are compared.
COMPARED_OF, COMPARED_AT = 8, 5
LIMIT = 0.5

WHAT = f"""\
One task of {{series:,}} series with three metrics; each batch touches {{touched:,}} of them, by chance.
The platform's own `Writer` and `StatePass` merge it into the state, in this process; HBase is a dictionary,
and the commit goes to memory. With deltas, and with blocks that are read and written whole. The mean of
{ROUNDS} batches each, in turns, and what a reader of the whole state then reads."""


class CountedHBase:
    """HBase's table `state` as a dictionary that counts bytes."""

    def __init__(self) -> None:
        self.read = self.written = self.calls = 0
        self._rows: dict[bytes, dict[bytes, bytes]] = {}

    def get(self, table: str, rows: Any, columns: Any) -> dict[bytes, dict[bytes, bytes]]:
        found = {row: dict(self._rows[row]) for row in rows if row in self._rows}
        self.read += sum(len(data) for cells in found.values() for data in cells.values())
        self.calls += 1
        return found

    def rewrite(self, table: str, rows: Any) -> None:
        for row, cells, gone in rows:
            self.written += sum(map(len, cells.values()))
            own = self._rows.setdefault(row, {})
            own.update(cells)
            for name in gone:
                own.pop(name, None)
        self.calls += 1

    def delete(self, table: str, rows: Any) -> None:
        for row, names in rows:
            for name in names:
                self._rows.get(row, {}).pop(name, None)


@dataclass(frozen=True, eq=False)
class MemoryStores:
    cells: CountedHBase
    memory: MemoryLog

    def hbase(self) -> Any:
        return self.cells

    def log(self, topic: str) -> Any:
        return self.memory

    def recounts(self, topic: str) -> Any:
        return NothingAside()


class InProcessPass:
    """In the place of Spark: one task merges the batch's partial aggregates."""

    def __init__(self, found: pa.Table) -> None:
        self.found = found

    def __call__(self, work: PartitionPass, dealing: Dealing, merging: StatePass, dealt: bool) -> Gathered:
        columns = [pa.array([PARTIAL]), pa.array([to_ipc(self.found)]), pa.array([0], pa.int32())]
        rows = pa.RecordBatch.from_arrays(columns, schema=SENT)
        return Gathered.of(pa.Table.from_batches(merging([rows]), FOUND))


@dataclass
class WriteMode:
    """One way to write the state, and what its batches cost."""

    large: int  # blocks of so many bytes take deltas
    fold: int
    cells: CountedHBase = field(default_factory=CountedHBase)
    memory: MemoryLog = field(default_factory=MemoryLog)
    costs: list[tuple[float, int, int, int]] = field(default_factory=list)  # CPU s, bytes, calls a batch
    reads: list[tuple[float, int]] = field(default_factory=list)  # CPU s and bytes of a reader of it all

    def __post_init__(self) -> None:
        self._writer: Any = writer(MemoryStores(self.cells, self.memory), 1)  # type: ignore[arg-type]

    def batch(self, found: pa.Table) -> None:
        deltas.LARGE, deltas.FOLD = self.large, self.fold
        before = self.cells.read, self.cells.written, self.cells.calls
        began = time.process_time()
        counted = self._writer.count(PLAN, None, InProcessPass(found), Laps(), small=True)
        took = time.process_time() - began
        self._writer.commit({}, [], counted)
        self._writer.prune(self.cells)
        self.costs.append(
            (
                took,
                self.cells.read - before[0],
                self.cells.written - before[1],
                self.cells.calls - before[2],
            )
        )

    def look(self) -> tuple[int, int]:
        """Read the whole state; returns how many series and lines it has."""
        before, began = self.cells.read, time.process_time()
        log: Any = Snapshots(self.memory)
        rows, _, _ = read_state(log, self.cells, self.memory.all()).rows()  # type: ignore[arg-type]
        self.reads.append((time.process_time() - began, self.cells.read - before))
        return rows.num_rows, sum(rows.column("lines").to_pylist())

    def row(self, name: str) -> list[Cell]:
        cpu, read, written, calls = (statistics.mean(each) for each in zip(*self.costs, strict=True))
        seconds, found = (statistics.mean(each) for each in zip(*self.reads, strict=True))
        return [name, cpu * 1000, read / 1e6, written / 1e6, calls, seconds * 1000, found / 1e6]


@dataclass(frozen=True)
class Snapshots:
    """A commit log in memory for readers."""

    memory: MemoryLog

    def newest(self) -> int:
        return self.memory.newest()

    def snapshot(self, keys: Any) -> Snapshot:
        readable = CommittedColumns(self.memory.newest(), self.memory.epochs())
        return Snapshot(readable, self.memory.commits[-1].committed_at, self.memory.periods(keys))


def run(quick: bool = False) -> Outcome:
    series, touched = (20_000, 200) if quick else (SERIES, TOUCHED)
    kinds = {"with deltas": WriteMode(deltas.LARGE, deltas.FOLD), "written whole": WriteMode(1 << 40, 1)}
    measure(kinds, series, touched, 4 if quick else ROUNDS)
    return outcome(kinds, WHAT.format(series=series, touched=touched), quick)


def measure(kinds: Mapping[str, WriteMode], series: int, touched: int, rounds: int) -> None:
    """Batches of each kind, in turns; at the end all have counted the same."""
    kept = deltas.LARGE, deltas.FOLD
    dice, every = np.random.default_rng(1), partials(1, series, 1)
    try:
        for turn in range(-WARM, rounds):
            some = every.take(pa.array(np.sort(dice.choice(series, touched, replace=False))))
            for kind in kinds.values():
                if turn == 0:
                    kind.costs.clear()
                kind.batch(every if turn < 1 - WARM else some)
            if (turn >= 0 and turn % COMPARED_OF == COMPARED_AT) or turn == rounds - 1:
                found = {kind.look() for kind in kinds.values()}
                if len(found) != 1:
                    raise AssertionError(f"the states differ: {found}")
    finally:
        deltas.LARGE, deltas.FOLD = kept


def outcome(kinds: Mapping[str, WriteMode], what: str, quick: bool) -> Outcome:
    rows = [kind.row(name) for name, kind in kinds.items()]
    new, old = rows[0], rows[1]
    bars = [
        Bar(f"{name} of a batch, with deltas over written whole", new[at] / old[at], LIMIT, "most")  # type: ignore[operator]
        for at, name in ((1, "CPU"), (2, "bytes read"), (3, "bytes written"))
    ]
    columns = ["blocks", "CPU, ms", "read, MB", "written, MB", "calls", "reader's CPU, ms", "reader's MB"]
    return Outcome(NAME, what, bars, [Table("A batch, and a reader of all", columns, rows)], quick=quick)
