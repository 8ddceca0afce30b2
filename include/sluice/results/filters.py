"""The conditions of a query on columns of SERIES.

A condition is tried once for each distinct value. Patterns run in Rust's linear-time engine, so none can
hang the reader.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.results.query import Where
from sluice.state.series import START, dimension, one
from sluice.tasks.spec import ActiveTask


def select(rows: pa.Table, task: ActiveTask, since: int, until: int, where: Sequence[Where]) -> pa.Table:
    """The SERIES whose periods start in [since, until) and that pass every condition."""
    names = [each.name for each in task.spec.dimensions]
    masks = []
    if rows.num_rows:
        ends = pc.min_max(rows.column(START))
        if ends["min"].as_py() < since or ends["max"].as_py() >= until:
            begins = rows.column(START)
            masks.append(pc.and_(pc.greater_equal(begins, since), pc.less(begins, until)))
    for condition in where:
        column = one(rows.column(dimension(names.index(condition.dimension))).combine_chunks())
        masks.append(pc.take(passing(column.dictionary, condition), column.indices))
    for mask in masks[1:]:
        masks[0] = pc.and_(masks[0], mask)
    return rows.filter(masks[0]) if masks else rows


def passing(values: pa.Array, condition: Where) -> pa.Array:
    """Which of these texts pass the condition."""
    if condition.values is not None:
        return pc.is_in(values, pa.array(condition.values, pa.string()))
    if condition.prefix is not None:
        return pc.starts_with(values, condition.prefix)
    found = pl.Series(values, dtype=pl.String).str.contains(condition.pattern or "", strict=True)
    return found.to_arrow()
