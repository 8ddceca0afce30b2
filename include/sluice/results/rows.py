"""SERIES to the rows that readers get: values in place of accumulators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sluice.metrics import metric
from sluice.results.values import Columns, columns_of, value_type, with_some
from sluice.runtime.arrays import Ints
from sluice.state.series import START, dimension, one
from sluice.tasks.spec import ActiveTask

STATE = "state"


class PeriodState(StrEnum):
    """Whether a period's results can still change. In the order of their codes."""

    FINAL = "final"  # published
    SUPERSEDED = "superseded"  # published, and to be computed again
    OPEN = "open"  # counted so far
    RECOUNTING = "recounting"  # being counted again from the archive, and not shown until then


#: The states of periods, by their codes: a roll-up has the greatest code of its parts.
STATES = tuple(PeriodState)
FINAL, SUPERSEDED, OPEN, RECOUNTING = range(len(STATES))
_LABEL = pa.dictionary(pa.int8(), pa.string())
_VALUE = pa.dictionary(pa.int32(), pa.string())
_LABELS = pa.array(STATES)
#: Rows of one state that share their labels.
_ALIKE = 1 << 16


def schema_of(task: ActiveTask, kept: Sequence[str], metrics: Sequence[str]) -> pa.Schema:
    """The columns that a reader gets: period, dimensions, metrics with their errors, state.

    A dimension is null in the row that stands for the rest of a top list.
    """
    fields = [pa.field("period", pa.timestamp("ms", tz=task.spec.timezone))]
    fields += [pa.field(name, _VALUE) for name in kept]
    for name in metrics:
        fields.append(pa.field(name, value_type(name)))
        if metric(name).sketched:
            fields.append(pa.field(f"{name}_error", pa.float64()))
    return pa.schema([*fields, pa.field(STATE, _LABEL)])


def rows_of(
    rows: pa.Table, task: ActiveTask, kept: Sequence[str], metrics: Sequence[str], states: Ints
) -> pa.RecordBatch:
    """SERIES as rows of `schema_of`; series without any of the values are left out.

    `states`: the code of each row's period.
    """
    rows = rows.combine_chunks()
    schema = schema_of(task, kept, metrics)
    if not rows.num_rows:
        return pa.RecordBatch.from_pylist([], schema)
    columns = [columns_of(rows, name) for name in metrics]
    batch = pa.RecordBatch.from_arrays(
        [*given(lambda name: one(rows.column(name)), task, kept, columns, schema), labels(states)],
        schema=schema,
    )
    some = with_some(columns)
    return batch if some is None else batch.filter(pa.array(some))


def given(
    stored: Callable[[str], pa.Array],
    task: ActiveTask,
    kept: Sequence[str],
    columns: Sequence[Columns],
    schema: pa.Schema,
) -> list[pa.Array]:
    """The columns of `schema_of` but the state; nothing is copied.

    `stored`: the columns of SERIES in one piece; `columns`: the values of each metric.
    """
    names = [each.name for each in task.spec.dimensions]
    period = stored(START).view(schema.field(0).type)
    values = (stored(dimension(names.index(name))) for name in kept)
    return [period, *values, *(column for own in columns for column in own)]


def labels(states: Ints) -> pa.Array:
    """The column of states, by the code of each row."""
    return pa.DictionaryArray.from_arrays(pa.array(states.astype(np.int8)), _LABELS)


def alike(state: int, rows: int) -> pa.Array:
    """The column of states of rows that all have this one."""
    if rows > _ALIKE:
        return labels(np.full(rows, state))
    return _most_alike(state).slice(0, rows)


@lru_cache(maxsize=len(STATES))
def _most_alike(state: int) -> pa.Array:
    return labels(np.full(_ALIKE, state))
