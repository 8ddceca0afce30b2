"""Answers as the columns of the SQL tables.

`results` has a row for each value: period, series and metric. The table of one task has a row for each period
and series, with a column for each dimension and metric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.results.query import PERIOD, is_list
from sluice.results.rows import STATE
from sluice.tasks.spec import ActiveTask

#: As Spark takes them: no other unit, no dictionary.
_TIME = pa.timestamp("us", "UTC")

#: The columns of `results`, with what each of them is.
LONG = (
    ("task", "STRING", "the task's name"),
    ("version", "INT", "the version of the task; results of versions never mix"),
    (PERIOD, "TIMESTAMP", "when the period begins"),
    ("dimensions", "MAP<STRING, STRING>", "the series: the value of each dimension"),
    ("metric", "STRING", "what was computed of the series"),
    ("value", "DOUBLE", "its value; null for a list"),
    ("text", "STRING", "the value of a list metric (top10), as JSON; null for a number"),
    ("error", "DOUBLE", "the stated error of a sketched metric; null if the value is exact"),
    (STATE, "STRING", "final (published), superseded (to be computed again) or open (the newest commit)"),
)


def shown(task: ActiveTask, columns: Iterable[str]) -> tuple[str, ...]:
    """The metrics to compute for these columns of the task's table.

    A row that has any value is shown, whatever columns are asked for. Each series has a count; without that
    metric, all are computed.
    """
    metrics = task.spec.metrics
    if "count" not in metrics:
        return metrics
    wanted = {"count", *columns}
    return tuple(name for name in metrics if name in wanted or f"{name}_error" in wanted)


def typed(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Rows of an answer with these columns, as the task's table has them."""
    return pa.record_batch([_plain(batch.column(name)) for name in columns], names=list(columns))


def values(
    batch: pa.RecordBatch, task: ActiveTask, metrics: Iterable[str], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Rows of an answer as rows of `results` with these columns, one batch for each metric."""
    names = [each.name for each in task.spec.dimensions]
    shared = {PERIOD: _plain(batch.column(PERIOD)), STATE: _plain(batch.column(STATE))}
    if "dimensions" in columns:
        shared["dimensions"] = _maps([_plain(batch.column(name)) for name in names], names, batch.num_rows)
    for metric in metrics:
        there = batch.column(metric).is_valid()
        count = pc.sum(there).as_py() or 0
        if not count:
            continue
        own = {**shared, **_value(batch, metric)}
        if count < batch.num_rows:
            own = {name: column.filter(there) for name, column in own.items() if name in columns}
        constant = {"task": task.spec.name, "version": pa.scalar(task.version, pa.int32()), "metric": metric}
        own |= {name: pa.repeat(value, count) for name, value in constant.items()}
        yield pa.record_batch([own[name] for name in columns], names=list(columns))


def _value(batch: pa.RecordBatch, metric: str) -> dict[str, pa.Array]:
    found = batch.column(metric)
    is_text = is_list(metric)
    error = f"{metric}_error"
    return {
        "value": pa.nulls(len(found), pa.float64()) if is_text else found.cast(pa.float64()),
        "text": found if is_text else pa.nulls(len(found), pa.string()),
        "error": batch.column(error) if error in batch.schema.names else pa.nulls(len(found), pa.float64()),
    }


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(_TIME)
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _maps(columns: Sequence[pa.Array], names: Sequence[str], rows: int) -> pa.Array:
    """A map for each row, from a column for each of the names."""
    offsets = pa.array(np.arange(rows + 1) * len(names), pa.int32())
    if not names:
        return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))
    # Row by row: of the columns one after the other, each `rows`-th value.
    place = np.arange(rows)[:, None] + rows * np.arange(len(names))[None, :]
    items = pa.concat_arrays(columns).take(pa.array(place.ravel()))
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), rows)))
    return pa.MapArray.from_arrays(offsets, keys, items)
