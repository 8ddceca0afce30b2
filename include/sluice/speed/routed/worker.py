"""The second stage: workers turn tuples into partial aggregates.

They use the same accumulators as the first stage.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine import tuples
from sluice.engine.aggregation import Grouping, Shared, aggregate
from sluice.engine.cut import encode
from sluice.engine.extract import ExtractedValues, numbers
from sluice.engine.groups import code, group
from sluice.engine.merge import merge_guarded
from sluice.engine.plan import EnginePlan, TaskPlan
from sluice.engine.set_aside import CAUGHT, Failures, Version, reason, series_a_period, to_table
from sluice.engine.spent import AT_SOURCE, Spent
from sluice.engine.spent import to_table as spent_table
from sluice.engine.wire import FAILED, ROUTED, SENT, SPENT, TAKEN, TUPLES, rows_of
from sluice.metrics import Batch, Texts
from sluice.runtime.sections import Limits
from sluice.speed import observed

# The engine's fixed cost is spread over this many tuples, or over fewer that have AGGREGATED_BYTES.
AGGREGATED_TUPLES = 131_072
AGGREGATED_BYTES = 64 << 20


@dataclass(frozen=True)
class WorkerPass:
    """What a task of the second stage does; picklable.

    It aggregates the tuples that sources sent to this worker, and passes the sources' other rows on.
    """

    plan: EnginePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        pa.set_cpu_count(1)
        workers: dict[int, Worker] = {}
        for batch in batches:
            sent = pc.equal(batch.column("kind"), TUPLES)
            passing = batch.filter(pc.invert(sent))
            yield pa.RecordBatch.from_arrays(passing.columns, schema=SENT)
            own = batch.filter(sent)
            for number, payload in zip(own.column("worker").to_pylist(), own.column("payload"), strict=True):
                worker = workers.setdefault(number, Worker(self.plan, number))
                worker.take(*tuples.read(payload.as_buffer()))
        for worker in workers.values():
            yield worker.done()


@dataclass
class _Waiting:
    """Tuples of a task that are not aggregated yet."""

    tables: list[pa.Table] = field(default_factory=list)
    tuples: int = 0
    bytes: int = 0

    def add(self, table: pa.Table) -> None:
        self.tables.append(table)
        self.tuples += table.num_rows
        self.bytes += table.nbytes


class Worker:
    """One worker and what was sent to it."""

    def __init__(self, plan: EnginePlan, number: int) -> None:
        self._plan = {task.key: task for task in plan.tasks}
        self._limits, self._number = plan.limits, number
        self._waiting: defaultdict[Version, _Waiting] = defaultdict(_Waiting)
        self._partials: defaultdict[Version, list[pa.Table]] = defaultdict(list)
        self._tuples: defaultdict[Version, int] = defaultdict(int)
        self._seconds: defaultdict[Version, float] = defaultdict(float)
        self._failed: Failures = {}

    def take(self, version: Version, table: pa.Table) -> None:
        """Take tuples of a task; they are aggregated once there are enough of them."""
        if version in self._failed:
            return
        waiting = self._waiting[version]
        waiting.add(table)
        if waiting.tuples >= AGGREGATED_TUPLES or waiting.bytes >= AGGREGATED_BYTES:
            self._aggregate(version)

    def done(self) -> pa.RecordBatch:
        """Rows of SENT: the partial aggregates, what they took, and the tasks that failed."""
        for version in list(self._waiting):
            self._aggregate(version)
        merged = {version: self._merged(version, tables) for version, tables in self._partials.items()}
        took = [
            Spent(
                *version,
                worker=self._number,
                source=AT_SOURCE,
                tuples=self._tuples[version],
                seconds=self._seconds[version],
                rows=len(table),
            )
            for version, table in merged.items()
        ]
        tables = [(ROUTED, table) for table in merged.values()]
        tables += [(TAKEN, observed.taken(table)) for table in merged.values()]
        return rows_of([*tables, (SPENT, spent_table(took)), (FAILED, to_table(self._failed))], self._number)

    def _merged(self, version: Version, tables: list[pa.Table]) -> pa.Table:
        if len(tables) == 1:
            return tables[0]
        began = time.perf_counter()
        merged, unmerged = merge_guarded(pa.concat_tables(tables))
        self._seconds[version] += time.perf_counter() - began
        self._failed |= unmerged
        return merged

    def _aggregate(self, version: Version) -> None:
        table = pa.concat_tables(self._waiting.pop(version).tables)
        began = time.perf_counter()
        try:
            self._partials[version].append(aggregated(self._plan[version], table, self._limits))
        except CAUGHT as error:
            self._failed[version] = reason(error)
            self._partials.pop(version, None)
            return
        self._seconds[version] += time.perf_counter() - began
        self._tuples[version] += table.num_rows


def aggregated(task: TaskPlan, table: pa.Table, limits: Limits) -> pa.Table:
    """One task's TUPLES as PARTIALS. Raises what its accumulators raise, and TooManySeries."""
    period, key, measure = (table.column(name).combine_chunks() for name in tuples.TUPLES.names)
    (periods, starts), (keys, words) = code(period), code(key)
    groups = group([periods, keys], table.num_rows)
    series_a_period(groups.codes[0], limits.series)
    made = Grouping(
        None, groups, starts.take(pa.array(groups.codes[0])), words.take(pa.array(groups.codes[1]))
    )

    def batch() -> Batch:
        if task.measure is None:
            return Batch(groups.numbers, groups.size, None)
        values = ExtractedValues(*encode(measure))
        texts = Texts(values.codes, values.distinct)
        found = None if task.measure_type == "text" else numbers(values)
        return Batch(groups.numbers, groups.size, found, None, texts)

    return aggregate(task, made, Shared(), batch)
