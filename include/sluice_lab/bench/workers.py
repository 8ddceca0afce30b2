"""The second stage of a batch by 1 to 16 workers, with an HBase that only waits."""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.wire import FOUND, PARTIAL, SENT, to_ipc
from sluice.runtime.sections import Limits
from sluice.speed.laps import Laps
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.state_pass import StatePass
from sluice.speed.writer import Writer
from sluice.state.dealing import Dealing
from sluice_lab.bench import workload
from sluice_lab.bench.emulated import Calls, MemoryLog, SlowHBase, SlowStores
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "workers"
TASKS, SERIES = 100, 10_000
WORKERS = (1, 2, 4, 8, 16)
#: Fewer, because each of the few periods of the quick form goes to one worker.
QUICK_WORKERS = (1, 2, 4)
PERIODS = (60, 300, 600, 3_600)  # seconds; tasks take turns
#: What a call waits: about 60 times what HBase takes, so that waiting outweighs computing on any machine.
CALL_SECONDS, MIB_SECONDS = 0.02, 0.6
LIMIT = 1.25
PLAN = EnginePlan.of([], Limits())

WHAT = """\
{tasks} tasks of {series:,} series each with three metrics (a count, a sum, a maximum): a batch touches all of
them, and 1 to 16 worker processes merge it into the state, with the platform's own `Writer`, `Dealing` and
`StatePass`. HBase is emulated by a fault double, `SlowHBase`: each call sleeps {call:.0f} ms and {mib:.1f} s
for each MiB, takes no CPU time and holds up no other call. So this shows how evenly the work is dealt out and
what the driver adds to it, and not what HBase can take; waiting outweighs computing because it was made to.
The time of a batch goes from the workers' start, with their partial aggregates at hand, to the commit (in
memory). The ideal is the waiting of one worker shared by all workers, its CPU time shared by as many as
there are cores ({cores}), and the driver's part, which is serial. Each writer's second batch is measured: the
first one tells it which periods are wide."""


@dataclass(frozen=True)
class WorkerCost:
    """What one worker did."""

    calls: Calls
    rows: int
    computed: float = 0.0  # seconds of CPU


@dataclass(frozen=True)
class BatchTimes:
    """How long a batch took, in seconds, and what its workers did."""

    stage: float
    driver: float
    works: Sequence[WorkerCost]

    @property
    def seconds(self) -> float:
        return self.stage + self.driver

    @property
    def waited(self) -> float:
        return sum(work.calls.waited for work in self.works)

    @property
    def computed(self) -> float:
        return sum(work.computed for work in self.works)

    @property
    def imbalance(self) -> float:
        """The largest part over the mean, workers without a part included."""
        return max(work.rows for work in self.works) * len(self.works) / sum(work.rows for work in self.works)


def run(quick: bool = False) -> Outcome:
    tasks, series = (40, 2_000) if quick else (TASKS, SERIES)
    with tempfile.TemporaryDirectory() as scratch:
        workers = QUICK_WORKERS if quick else WORKERS
        batches = measure(Path(scratch), [partials(tasks, series, seed) for seed in (1, 2)], workers)
    cores = len(os.sched_getaffinity(0))
    what = WHAT.format(
        tasks=tasks, series=series, call=CALL_SECONDS * 1000, mib=MIB_SECONDS, cores=cores
    )  # fmt: skip
    return outcome(batches, cores, what, quick)


def outcome(batches: dict[int, BatchTimes], cores: int, what: str, quick: bool) -> Outcome:
    one = batches[1]
    bars = [
        Bar(f"{number} workers: time of a batch over the ideal", found.seconds / ideal(one, number, cores),
            LIMIT, "most")
        for number, found in batches.items() if number > 1
    ]  # fmt: skip
    rows: list[list[Cell]] = [
        [
            str(number),
            found.seconds,
            ideal(one, number, cores),
            one.seconds / found.seconds,
            found.driver,
            found.waited,
            found.computed,
            found.imbalance,
            sum(work.calls.number for work in found.works) / number,
            sum(work.calls.bytes for work in found.works) / number / 1e6,
        ]
        for number, found in batches.items()
    ]
    columns = ["workers", "batch, s", "ideal, s", "speed-up", "driver, s", "waited, all, s", "CPU, all, s",
               "largest part over mean", "calls a worker", "MB a worker"]  # fmt: skip
    return Outcome(NAME, what, bars, [Table("A batch by so many workers", columns, rows)], quick=quick)


def ideal(one: BatchTimes, workers: int, cores: int) -> float:
    """The seconds that so many workers need for what one worker did, if they share it evenly."""
    return one.waited / workers + one.computed / min(workers, cores) + one.driver


def measure(folder: Path, partials: Sequence[pa.Table], workers: Sequence[int]) -> dict[int, BatchTimes]:
    """The second batch of a writer with so many workers, for each number of them.

    The first batch does not wait, and neither does the one that makes the state.
    """
    stores = SlowStores(SlowHBase(folder), MemoryLog())
    batch(writer(stores, max(workers)), partials[0])
    found = {}
    for number in workers:
        own = writer(stores, number)
        batch(own, partials[0])
        stores.slow.call_seconds, stores.slow.mib_seconds = CALL_SECONDS, MIB_SECONDS
        found[number] = batch(own, partials[1])
        stores.slow.call_seconds = stores.slow.mib_seconds = 0.0
        sys.stderr.write(f"  {NAME}: {number} workers: {found[number].seconds:.2f} s\n")
    return found


def writer(stores: SlowStores, workers: int) -> Writer:
    """A writer that goes on after the newest commit."""
    log: Any = stores.memory
    offsets: Any = SimpleNamespace(
        bounds=lambda: SimpleNamespace(topic_id="", logs={}, first={}, next={}),
        check_topic=lambda: None,
        read_at={},
        topic_id="",
    )
    claim: Any = SimpleNamespace(take=lambda: None)
    made = Writer(log, claim, stores, offsets, tasks=workers)
    made.open()
    return made


def batch(own: Writer, partials: pa.Table) -> BatchTimes:
    """Count and commit a batch that has these partial aggregates."""
    forked = Forked(partials)
    began = time.perf_counter()
    own.commit({}, [], own.count(PLAN, None, forked, Laps()))
    return BatchTimes(forked.stage, time.perf_counter() - began - forked.seconds, forked.works)


class Forked:
    """In the place of Spark: deals out partial aggregates, and runs the second stage in processes."""

    def __init__(self, partials: pa.Table) -> None:
        self.stage = self.seconds = 0.0  # the stage's time; that of all that is not the driver's
        self.works: list[WorkerCost] = []
        self.rows = FOUND.empty_table()  # what the stage found
        self._partials = partials

    def __call__(self, work: PartitionPass, dealing: Dealing, merging: StatePass, dealt: bool) -> Gathered:
        began = time.perf_counter()
        parts = dict(dealing(self._partials))
        context = multiprocessing.get_context("fork")
        start = context.Barrier(len(parts) + 1)
        ends, processes = [], []
        for part in parts.values():
            mine, its = context.Pipe(duplex=False)
            rows = pa.RecordBatch.from_arrays(
                [pa.array([PARTIAL]), pa.array([to_ipc(part)]), pa.array([0], pa.int32())], schema=SENT
            )
            process = context.Process(target=_work, args=(merging, rows, start, its), daemon=True)
            process.start()
            its.close()  # so that a worker that dies is noticed
            ends.append(mine)
            processes.append(process)
        start.wait()
        started = time.perf_counter()
        found = [end.recv() for end in ends]
        self.stage = time.perf_counter() - started
        for process in processes:
            process.join()
        self.works = [
            WorkerCost(calls, len(part), cpu)
            for (_, calls, cpu), part in zip(found, parts.values(), strict=True)
        ] + [WorkerCost(Calls(), 0)] * (dealing.tasks - len(parts))
        self.rows = pa.concat_tables(rows for rows, *_ in found)
        self.seconds = time.perf_counter() - began
        return Gathered.of(self.rows)


def _work(merging: StatePass, rows: pa.RecordBatch, start: Barrier, out: Connection) -> None:
    start.wait()
    began = time.process_time()
    made = pa.Table.from_batches(merging([rows]), FOUND)
    calls = merging.stores.hbase().calls  # type: ignore[attr-defined]
    out.send((made, calls, time.process_time() - began))
    out.close()


def partials(tasks: int, series: int, seed: int) -> pa.Table:
    """Partial aggregates of each series of each task, in the periods that one moment lies in."""
    rng = np.random.default_rng(seed)
    size = tasks * series
    at = int(workload.START.timestamp()) + 7 * 60 + 13
    ids = np.arange(1, tasks + 1)
    lengths = np.array(PERIODS)[ids % len(PERIODS)]
    keys = pa.array([f"10.{n // 250}.{n % 250}.7_/articles/{n % 977}" for n in range(series)])
    given = {
        "task_id": pa.array(np.repeat(ids, series).astype(np.int32)),
        "version": pa.array(np.ones(size, np.int32)),
        "period_start": pa.array(np.repeat(at // lengths * lengths * 1000, series)),
        "key": pa.concat_arrays([keys] * tasks),
        "lines": pa.array(rng.integers(1, 1_000, size)),
        "measured": pa.array(rng.integers(1, 1_000, size)),
        "isum": pa.array(rng.integers(1, 1_000_000, size)),
        "max": pa.array(rng.integers(1, 60_000, size).astype(np.float64)),
    }
    schema = partials_schema()
    return pa.table([given.get(f.name, pa.nulls(size, f.type)) for f in schema], schema=schema)
