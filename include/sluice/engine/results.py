"""Merged partial aggregates to results: each metric's value, its text, and its row key.

The nightly run writes the same values in another form: `batch.day_results.result_rows` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.rowkey import encode_rows, encode_series, escape
from sluice.engine.schema import partials_schema
from sluice.metrics import Metric, accumulator_columns, metric
from sluice.metrics.base import Columns, Results
from sluice.runtime.arrays import Bools, Floats, Ints
from sluice.tasks.spec import ActiveTask

#: Which of a metric's results are wanted: by its name, its results, and the rows that have a value.
Wanted = Callable[[str, Results, Ints], Bools]

RESULTS = pa.schema(
    [
        pa.field("task_id", pa.int32(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("period_start", pa.int64(), nullable=False),  # ms since the epoch
        pa.field("key", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("is_int", pa.bool_(), nullable=False),  # then `text` is exact, even if `value` is rounded
        # Decimal: integers without a point, floats as repr(); JSON where the metric's value is a list.
        pa.field("text", pa.string(), nullable=False),
        pa.field("error", pa.float64()),  # as the metric defines it, 0 if exact; null if not sketched
        pa.field("row", pa.binary(), nullable=False),  # rowkey.RowKey
    ]
)


def results(
    table: pa.Table,
    tasks: Mapping[tuple[int, int], ActiveTask],
    wanted: Callable[[Columns], Wanted | None] | None = None,
) -> pa.Table:
    """Merged PARTIALS to RESULTS, a row for each series, period and metric that has a value.

    `tasks` are by (id, version); rows of other versions are left out. `wanted` gets the columns of one
    version, and says which results are made: making texts and row keys costs far more than the values.
    """
    columns = {name: _one(table.column(name)) for name in partials_schema().names}
    labels = columns["task_id"].to_numpy().astype(np.int64) << 32 | columns["version"].to_numpy()
    parts = [RESULTS.empty_table()]
    for label in np.unique(labels).tolist():
        task = tasks.get((label >> 32, label & 0xFFFFFFFF))
        if task is None:
            continue
        rows = pa.array(np.flatnonzero(labels == label))
        own = columns if len(rows) == table.num_rows else {n: c.take(rows) for n, c in columns.items()}
        parts.append(_version(own, task, wanted(own) if wanted is not None else None))
    return pa.concat_tables(parts)


class _Made(NamedTuple):
    """A metric's results, made of these rows of a version's columns; as in RESULTS."""

    rows: Ints
    value: Floats
    is_int: Bools
    text: pa.Array
    error: pa.Array


def _version(columns: Columns, task: ActiveTask, wanted: Wanted | None) -> pa.Table:
    """One version's results, metric by metric.

    Its calls cost more than its rows: it has few of them, and makes each column of all metrics at once.
    """
    made = [_metric(columns, metric(name), wanted) for name in task.spec.metrics]
    rows = pa.array(np.concatenate([each.rows for each in made]))
    sizes = [len(each.rows) for each in made]
    of = pa.array(np.repeat(np.arange(len(made)), sizes))
    names, escaped = (
        pa.array(each, pa.string()).take(of)
        for each in (task.spec.metrics, list(map(escape, task.spec.metrics)))
    )
    dimensions = [dimension.name for dimension in task.spec.dimensions]
    beginnings = encode_series(task.label, dimensions, columns["key"])
    periods = columns["period_start"]
    taken = {name: columns[name].take(rows) for name in ("task_id", "version", "period_start", "key")}
    return pa.table(
        [
            *taken.values(),
            names,
            pa.array(np.concatenate([each.value for each in made])),
            pa.array(np.concatenate([each.is_int for each in made])),
            pa.concat_arrays([each.text for each in made]),
            pa.concat_arrays([each.error for each in made]),
            encode_rows(beginnings.take(rows), escaped, periods.cast(pa.string()).take(rows)),
        ],
        schema=RESULTS,
    )


def _metric(columns: Columns, made: Metric, wanted: Wanted | None) -> _Made:
    found = made.results({name: columns[name] for name in accumulator_columns()})
    there = np.flatnonzero(~np.isnan(found.values))
    if wanted is not None:
        there = there[wanted(made.name, found, there)]
    values = found.values[there]
    exact = np.zeros(len(there), bool)
    if found.texts is not None:
        text = found.texts.take(pa.array(there))
    elif found.integers is None or found.exact is None:
        text = _floats(values)
    else:
        exact, text = found.exact[there], pa.array(found.integers[there]).cast(pa.string())
        if not exact.all():
            text = pc.replace_with_mask(text, pa.array(~exact), _floats(values[~exact]))
    error = pa.nulls(len(there), pa.float64()) if found.errors is None else pa.array(found.errors[there])
    return _Made(there, values, exact, _one(text), error)


def _floats(values: Floats) -> pa.Array:
    return pa.array([repr(v) for v in values.tolist()], pa.string())


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
