"""Combine partial aggregates of the same series and period: associative and commutative."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.groups import Groups, code, group
from sluice.engine.schema import KEYS, partials_schema
from sluice.engine.set_aside import Failures, each_or_all
from sluice.metrics import Accumulator, all_accumulators
from sluice.runtime.arrays import Ints


def merge(table: pa.Table) -> pa.Table:
    """PARTIALS with any number of rows per (task, version, period, key) to one row each.

    Columns that are null in every row of a group stay null: that task does not need them.
    """
    return merge_numbered(table)[0]


def merge_guarded(table: pa.Table) -> tuple[pa.Table, Failures]:
    """`merge` without the task versions whose accumulators raise, and why each one did."""
    merged, failures = each_or_all(merge, table)
    return pa.concat_tables(merged) if merged else partials_schema().empty_table(), failures


def merge_numbered(table: pa.Table) -> tuple[pa.Table, Ints]:
    """`merge`, and for each row of `table` the merged row that it went into."""
    if table.num_rows == 0:
        return partials_schema().empty_table(), np.empty(0, np.int64)
    table = table.combine_chunks()
    coded = [code(_column(table, name)) for name in KEYS]
    groups = group([c for c, _ in coded], table.num_rows)
    columns = {
        name: distinct.take(pa.array(codes))
        for name, (_, distinct), codes in zip(KEYS, coded, groups.codes, strict=True)
    }
    for accumulator in all_accumulators().values():
        columns |= _merge(accumulator, table, groups)
    return pa.table([columns[f.name] for f in partials_schema()], schema=partials_schema()), groups.numbers


def _merge(accumulator: Accumulator, table: pa.Table, groups: Groups) -> dict[str, pa.Array]:
    """One accumulator merged, left null in the groups of tasks that do not need it."""
    given = {name: _column(table, name) for name in accumulator.columns}
    if all(c.null_count == len(c) for c in given.values()):
        return {n: pa.nulls(groups.size, t) for n, t in accumulator.columns.items()}
    merged = accumulator.merge(given, groups.numbers, groups.size)
    if all(c.null_count > 0 for c in given.values()):
        present = np.logical_or.reduce([c.is_valid().to_numpy(zero_copy_only=False) for c in given.values()])
        needed = np.zeros(groups.size, bool)
        needed[groups.numbers[present]] = True
        merged = {n: pc.if_else(pa.array(needed), c, None) for n, c in merged.items()}
    return merged


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    if column.num_chunks > 1:  # Arrow's binary arrays end at 2 GiB
        raise OverflowError(f"{name}: {column.nbytes >> 20} MiB of states are too many to merge at once")
    return column.chunk(0)
