"""SERIES to the rows that readers get: values in place of accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import accumulator_columns, metric
from sluice.results.query import is_list
from sluice.runtime.arrays import Bools, Ints
from sluice.state.series import START, dimension, one
from sluice.tasks.spec import ActiveTask

STATE = "state"
#: The states of periods, by their codes: a roll-up has the greatest code of its parts.
STATES = ("final", "superseded", "open")
FINAL, SUPERSEDED, OPEN = range(3)
_LABEL = pa.dictionary(pa.int8(), pa.string())
_VALUE = pa.dictionary(pa.int32(), pa.string())
#: Metrics whose values are always integers.
_WHOLE = ("count", "missing")


def schema_of(task: ActiveTask, kept: Sequence[str], metrics: Sequence[str]) -> pa.Schema:
    """The columns that a reader gets: period, dimensions, metrics with their errors, state.

    A dimension is null in the row that stands for the rest of a top list.
    """
    fields = [pa.field("period", pa.timestamp("ms", tz=task.spec.timezone))]
    fields += [pa.field(name, _VALUE) for name in kept]
    for name in metrics:
        made = metric(name)
        kind = pa.int64() if name in _WHOLE else pa.string() if is_list(name) else pa.float64()
        fields.append(pa.field(name, kind))
        if made.sketched:
            fields.append(pa.field(f"{name}_error", pa.float64()))
    return pa.schema([*fields, pa.field(STATE, _LABEL)])


def rows_of(
    rows: pa.Table, task: ActiveTask, kept: Sequence[str], metrics: Sequence[str], states: Ints
) -> pa.Table:
    """SERIES as rows of `schema_of`; series without any of the values are left out.

    `states`: the code of each row's period.
    """
    schema = schema_of(task, kept, metrics)
    rows = rows.combine_chunks()
    if not rows.num_rows:
        return schema.empty_table()
    stored = {name: one(rows.column(name)) for name in accumulator_columns() if name in rows.column_names}
    names = [each.name for each in task.spec.dimensions]
    columns: dict[str, pa.Array] = {"period": one(rows.column(START)).cast(schema.field("period").type)}
    columns |= {name: one(rows.column(dimension(names.index(name)))) for name in kept}
    there: list[Bools] = []
    for name in metrics:
        found = metric(name).results(stored)
        missing = np.isnan(found.values)
        there.append(~missing)
        kind = schema.field(name).type
        if found.texts is not None:
            columns[name] = pc.if_else(pa.array(~missing), found.texts, pa.scalar(None, pa.string()))
        elif name in _WHOLE and found.integers is not None:
            columns[name] = pa.array(found.integers, mask=missing)
        else:
            columns[name] = pa.array(found.values, mask=missing).cast(kind)
        if f"{name}_error" in schema.names:
            errors = np.zeros(len(missing)) if found.errors is None else found.errors
            columns[f"{name}_error"] = pa.array(errors, mask=missing)
    labels = pa.DictionaryArray.from_arrays(pa.array(states.astype(np.int8)), pa.array(STATES))
    table = pa.table([*(columns[f.name] for f in schema if f.name != STATE), labels], schema=schema)
    some = reduce(np.logical_or, there)
    return table if some.all() else table.filter(pa.array(some))
