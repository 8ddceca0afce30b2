"""What the driver does for a batch does not grow with the series."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from sluice.engine.wire import FOUND
from sluice.speed.laps import Laps
from sluice.speed.partition_pass import Gathered
from sluice.speed.routed.topic_routing import TopicRouting
from sluice.tasks import ActiveTask
from sluice_lab.bench import scale, workload
from sluice_lab.bench.emulated import MemoryLog, SlowHBase, SlowStores
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.workers import PLAN, Forked, batch, partials, writer

NAME = "driver"
TASKS, FEW, MANY = 8, 1_000, 100_000
WORKERS, PARTITIONS, FILES = 4, 16, 100
WARM, ROUNDS = 5, 40
LIMIT = 1.2

WHAT = f"""\
The CPU time that the driver's Python process takes for a batch: {{tasks}} tasks of {{few:,}} series each,
and of {{many:,}}. Each batch touches all series, and has stretches of {FILES} files in each of {PARTITIONS}
partitions. What the {WORKERS} tasks of the state return was recorded once: by processes that merged such a
batch into the state (`StatePass`). The driver gets it again and again. Everything else is the platform's own:
what the tasks return is put together and held against the ledger, the commit is made up, and the routing
learns from the batch. The commit goes to memory, so the time of PostgreSQL's client, which is the same for
both, is left out, and so is Spark's JVM. The median of {ROUNDS} batches each, in turns."""


def run(quick: bool = False) -> Outcome:
    tasks, few, many = (2, 200, 20_000) if quick else (TASKS, FEW, MANY)
    drivers = {number: Driver(tasks, number) for number in (few, many)}
    for turn in range(WARM + ROUNDS):
        for driver in drivers.values():
            driver.batch()
            if turn < WARM:
                driver.cpu.clear()
    what = WHAT.format(tasks=tasks, few=few, many=many)
    return outcome({number: driver.cpu for number, driver in drivers.items()}, what, quick)


def outcome(cpu: dict[int, list[float]], what: str, quick: bool) -> Outcome:
    few, many = cpu.values()
    grown = statistics.median(many) / statistics.median(few)
    rows: list[list[Cell]] = [
        [f"{number:,}", statistics.median(found) * 1000, min(found) * 1000, max(found) * 1000]
        for number, found in cpu.items()
    ]
    bars = [Bar("driver's CPU for a batch, 100 times the series", grown, LIMIT, "most")]
    columns = ["series of a task", "median", "least", "most"]
    return Outcome(NAME, what, bars, [Table("Milliseconds of CPU a batch", columns, rows)], quick=quick)


@dataclass
class Driver:
    """The driver of one topic, whose every batch touches all of its series."""

    tasks: int
    series: int
    cpu: list[float] = field(default_factory=list)  # seconds a batch

    def __post_init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._writer = writer(SlowStores(SlowHBase(Path(folder)), MemoryLog()), WORKERS)
            found = partials(self.tasks, self.series, 1)
            batch(self._writer, found)
            second = Forked(found)  # by now it is known which periods are wide
            self._writer.commit({}, [], self._writer.count(PLAN, None, second, Laps()))
        self._stated = second.rows
        self._active = {
            (number, 1): ActiveTask(number, 1, spec)
            for number, spec in enumerate(workload.tasks(self.tasks), 1)
        }
        self._routing = TopicRouting(WORKERS)
        self._number = 0

    def batch(self) -> None:
        """Count and commit a batch, and note the CPU seconds that it took."""
        rows = [scale.found_by(at, self._number, PARTITIONS, FILES) for at in range(PARTITIONS)]
        found = pa.concat_tables([pa.Table.from_batches(rows, FOUND), self._stated])
        self._number += 1
        gc.collect()
        began = time.process_time()
        routes = self._routing.routes(self._active)
        counted = self._writer.count(PLAN, routes, lambda *_: Gathered.of(found), Laps())
        self._writer.commit({}, self._active, counted)
        self._routing.counted(counted.found)
        self._routing.shown("logs", self._active)
        self.cpu.append(time.process_time() - began)
