"""Grouped lines to partial aggregates: the accumulators of a task over its series.

The lines may be those of a batch that all tasks share (`count`), or tuples of one task that were sent to a
worker (`speed.routed`); the aggregates are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sluice.engine.groups import Groups
from sluice.engine.outcomes import TaskOutcome
from sluice.engine.plan import TaskPlan
from sluice.engine.schema import partials_schema
from sluice.metrics import Batch
from sluice.runtime.arrays import Ints


@dataclass(frozen=True)
class Grouping:
    """The lines that a task counts (None: all of them), grouped by period and series."""

    rows: Ints | None
    groups: Groups
    period_start: pa.Array
    key: pa.Array
    outcome: TaskOutcome | None = None  # None: where tuples are aggregated, whose source has noted it


@dataclass
class Shared:
    """What is computed once for all tasks that count the same lines in the same groups."""

    grouping: Grouping | None = None
    batches: dict[object, Batch] = field(default_factory=dict)  # by measure
    columns: dict[object, dict[str, pa.Array]] = field(default_factory=dict)  # by measure and accumulator


def aggregate(task: TaskPlan, grouping: Grouping, shared: Shared, batch: Callable[[], Batch]) -> pa.Table:
    """PARTIALS of one task.

    `batch` makes the measures of its lines; it is called only if no other task has made them.
    """
    size = grouping.groups.size
    columns: dict[str, pa.Array] = {
        "task_id": pa.array(np.full(size, task.task_id, np.int32)),
        "version": pa.array(np.full(size, task.version, np.int32)),
        "period_start": grouping.period_start,
        "key": grouping.key,
    }
    for accumulator in task.accumulators:
        measured = (task.measure, task.measure_type)
        if (*measured, accumulator.name) not in shared.columns:
            if measured not in shared.batches:
                shared.batches[measured] = batch()
            shared.columns[(*measured, accumulator.name)] = accumulator.add(shared.batches[measured])
        columns |= shared.columns[(*measured, accumulator.name)]
    return pa.table(
        [columns[f.name] if f.name in columns else pa.nulls(size, f.type) for f in partials_schema()],
        schema=partials_schema(),
    )
