"""Results and state through HBase's Thrift server, in tables that are dropped at the end."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.results import results
from sluice.engine.schema import partials_schema
from sluice.metrics import accumulator_columns
from sluice.runtime.sections import Limits
from sluice.state.blocks import BlockId
from sluice.state.cells import online_cells
from sluice.state.merging import Changes, merge_into_blocks
from sluice.state.state import BLOCKS_A_PUT
from sluice.storage.hbase import RESULT_FAMILY, STATE_FAMILY, HBase
from sluice.storage.tables.epochs import PeriodKey
from sluice.tasks import ActiveTask, TaskSpec
from sluice_lab.bench import stack, workload
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "hbase"
RESULTS_TABLE, STATE_TABLE = "bench_results", "bench_state"
LINES, ROUNDS = 500_000, 5
RATE_LIMIT, BLOCK_LIMIT = 40_000.0, 1 << 20
TASKS, BUCKETS, PERIODS, SERIES_A_BUCKET = 64, 64, 3, 20
SKETCHED_SERIES = 100_000
COLUMN = b"s:1"
BLOCKS_A_GET = 256  # each has at most 1 MiB, mostly far less

WHAT = """\
Through the Thrift server of instance `{instance}`, this process bound to one core. Results:
{results:,} of them, made from merged partial aggregates (row keys and texts included) and put as
the speed layer puts them if all changed, median of {rounds} rounds. State: batches that touch every
block, merged into blocks read back from HBase and written again: first {tasks} tasks x {buckets}
buckets x {periods} open periods, then {sketched:,} series of one task with the sketches of unique
and p99. A block may never exceed 1 MiB."""


def run(quick: bool = False) -> Outcome:
    with stack.running() as settings, HBase.of(settings) as store:
        for table, family in ((RESULTS_TABLE, RESULT_FAMILY), (STATE_TABLE, STATE_FAMILY)):
            store.drop_table(table)
            store.create_table(table, {family.decode(): {"max_versions": 1}})
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(cores)})
        pa.set_cpu_count(1)
        try:
            written, seconds = project(store, LINES // 10 if quick else LINES, 2 if quick else ROUNDS)
            wide = State(store).batches(*wide_batches(8 if quick else TASKS))
            sketched = State(store).batches(*sketched_batches(SKETCHED_SERIES // (10 if quick else 1)))
        finally:
            os.sched_setaffinity(0, cores)
            store.drop_table(RESULTS_TABLE)
            store.drop_table(STATE_TABLE)
        instance = settings.instance
    named = {
        f"{TASKS} tasks x {BUCKETS} buckets x {PERIODS} periods": wide,
        f"{SKETCHED_SERIES:,} series with sketches": sketched,
    }
    bars = [
        Bar(
            "results written a second, one core", written / statistics.median(seconds), RATE_LIMIT, unit="/s"
        ),
        *(
            Bar(f"largest block, {name}", largest(found) / BLOCK_LIMIT, 1.0, "most", unit="MiB")
            for name, found in named.items()
        ),
    ]
    rows: list[list[Cell]] = [
        [name, len(found[-1].sizes), sum(found[-1].sizes) / 1e6, *found[-1].laps.values()]
        for name, found in named.items()
    ]
    columns = ["a batch that touches all of", "blocks", "MB", "read, s", "merge, s", "write, s"]
    what = WHAT.format(
        instance=instance, results=written, rounds=len(seconds), tasks=TASKS, buckets=BUCKETS,
        periods=PERIODS, sketched=SKETCHED_SERIES,
    )  # fmt: skip
    return Outcome(NAME, what, bars, [Table("State in blocks", columns, rows)], quick=quick)


# Results


def project(store: HBase, lines: int, rounds: int) -> tuple[int, list[float]]:
    """The number of results written in a round, and the seconds that each round took."""
    tasks = workload.active(workload.tasks(16))
    merged = merge(count(batch_of(workload.lines(lines, 600)), EnginePlan.of(tasks, Limits())).partials)
    by_version = {(task.task_id, task.version): task for task in tasks}
    seconds, written = [], 0
    for number in range(rounds):
        begin = time.perf_counter()
        cells = online_cells(results(merged, by_version))
        written = store.put_table(RESULTS_TABLE, cells, timestamp=number + 1)
        seconds.append(time.perf_counter() - begin)
        stack.say(f"{NAME}: {written:,} results in {seconds[-1]:.2f} s")
    return written, seconds


def batch_of(lines: pa.Array) -> pa.RecordBatch:
    """Lines as the columns that the engine's pass takes."""
    return pa.RecordBatch.from_arrays(
        [pa.array(np.zeros(len(lines), np.int32)), pa.array(np.arange(len(lines))), lines],
        ["partition", "offset", "line"],
    )


# State


@dataclass
class MergeCosts:
    """What it took to merge one batch into the state."""

    laps: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("read", "merge", "write"), 0.0))
    sizes: list[int] = field(default_factory=list)


class State:
    """Blocks in STATE_TABLE without commits; the only column has the newest contents."""

    def __init__(self, store: HBase) -> None:
        self._store = store
        self._sizes: dict[BlockId, int] = {}
        self._read = 0.0

    def batches(self, partials: Sequence[pa.Table], layouts: dict[PeriodKey, int]) -> list[MergeCosts]:
        """Merge each batch into the blocks of the batches before it."""
        found = []
        for table in partials:
            batch = MergeCosts()
            self._read = 0.0
            begin = time.perf_counter()
            changes = merge_into_blocks(table, layouts, self._load)
            merged = time.perf_counter()
            self._write(changes)
            batch.laps |= {
                "read": self._read,
                "merge": merged - begin - self._read,
                "write": time.perf_counter() - merged,
            }
            layouts = {block.period: block.layout for block in self._sizes}
            batch.sizes = list(self._sizes.values())
            stack.say(f"{NAME}: {len(batch.sizes):,} blocks, " + str(batch.laps))
            found.append(batch)
        return found

    def _load(self, blocks: Sequence[BlockId]) -> Mapping[BlockId, bytes]:
        begin = time.perf_counter()
        there = [block for block in blocks if block in self._sizes]
        found: dict[BlockId, bytes] = {}
        for at in range(0, len(there), BLOCKS_A_GET):
            some = there[at : at + BLOCKS_A_GET]
            rows = self._store.get(STATE_TABLE, [b.row.encode() for b in some], [STATE_FAMILY])
            found |= {block: rows[block.row.encode()][COLUMN] for block in some}
        self._read += time.perf_counter() - begin
        return found

    def _write(self, changes: Changes) -> None:
        todo = list(changes.blocks.items())
        for at in range(0, len(todo), BLOCKS_A_PUT):
            some = todo[at : at + BLOCKS_A_PUT]
            self._store.put(STATE_TABLE, [(block.row.encode(), {COLUMN: data}) for block, data in some])
        for block in changes.removed:
            self._sizes.pop(block, None)
        self._sizes |= {block: len(data) for block, data in todo}


def largest(batches: Sequence[MergeCosts]) -> int:
    return max(size for batch in batches for size in batch.sizes)


def wide_batches(tasks: int) -> tuple[list[pa.Table], dict[PeriodKey, int]]:
    """Two batches that touch each bucket of each open period of these tasks, and the layouts."""
    keys = [f"series-{n}" for n in range(BUCKETS * SERIES_A_BUCKET)]
    starts = [int(workload.START.timestamp() * 1000) + 60_000 * n for n in range(PERIODS)]
    named = [(task, start, key) for task in range(1, tasks + 1) for start in starts for key in keys]
    size = len(named)
    rng = np.random.default_rng(1)
    given = {
        "task_id": pa.array([task for task, _, _ in named], pa.int32()),
        "version": pa.array(np.ones(size, np.int32)),
        "period_start": pa.array([start for _, start, _ in named]),
        "key": pa.array([key for _, _, key in named]),
        "lines": pa.array(rng.integers(1, 1000, size)),
        "measured": pa.array(rng.integers(1, 1000, size)),
        "isum": pa.array(rng.integers(1, 1_000_000, size)),
        "min": pa.array(rng.random(size)),
        "max": pa.array(rng.random(size)),
    }
    schema = partials_schema()
    table = pa.table([given.get(f.name, pa.nulls(size, f.type)) for f in schema], schema=schema)
    return [table, table], {(task, 1, start): BUCKETS for task in range(1, tasks + 1) for start in starts}


def sketched_batches(series: int) -> tuple[list[pa.Table], dict[PeriodKey, int]]:
    """Two batches of a task with sketches; each has all series, with three lines per series."""
    spec = TaskSpec.model_validate(
        {
            "name": "sketched",
            "topic": "logs",
            "period": "1h",
            "dimensions": [{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
            "measure": {"delimiter": " ", "index": 9, "type": "number"},
            "metrics": ["count", "unique", "p99"],
        }
    )
    plan = EnginePlan.of([ActiveTask(TASKS + 1, 1, spec)], Limits())
    rng = np.random.default_rng(2)
    batches = []
    for _ in range(2):
        clients = pa.array(np.tile(np.arange(series), 3)).cast(pa.string())
        sizes = pa.array(rng.integers(0, 60_000, 3 * series)).cast(pa.string())
        lines = pc.binary_join_element_wise(
            clients, '- - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200', sizes, " "
        )
        batches.append(count(batch_of(lines.cast(pa.binary())), plan).partials)
    if not {"hll", "kll"} & set(accumulator_columns()):
        raise ValueError("this build has no sketches: unique and p99 have no accumulators of their own")
    return batches, {}
