"""Series as columns: what final blocks hold, and what a reader filters, rolls up and sorts.

SERIES is a table of one task version: `period_start` (ms), a dictionary-encoded column `d0`, `d1`, ... of
values for each dimension, and the accumulators that the task's metrics need. Codes in place of texts make a
filter or a group cost an array of small integers, however long the values are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.groups import Coded, code, group
from sluice.engine.rowkey import split_keys, unescape_column
from sluice.metrics import Accumulator, accumulators
from sluice.runtime.arrays import Bools, Ints
from sluice.tasks.spec import ActiveTask

START = "period_start"
_VALUES = pa.dictionary(pa.int32(), pa.string())


def dimension(number: int) -> str:
    """The column of the dimension with that number in the task."""
    return f"d{number}"


def series_schema(task: ActiveTask) -> pa.Schema:
    """The schema of SERIES."""
    return pa.schema(
        [
            pa.field(START, pa.int64()),
            *(pa.field(dimension(n), _VALUES) for n in range(len(task.spec.dimensions))),
            *(pa.field(name, kind) for each in needed(task) for name, kind in each.columns.items()),
        ]
    )


def needed(task: ActiveTask) -> tuple[Accumulator, ...]:
    """The accumulators that the task's metrics need."""
    return accumulators(task.spec.metrics)


def of_partials(rows: pa.Table, task: ActiveTask) -> pa.Table:
    """SERIES of merged PARTIALS of the task version, in the order of periods, then of values."""
    schema = series_schema(task)
    if not rows.num_rows:
        return schema.empty_table()
    rows = rows.combine_chunks()
    values = [
        unescape_column(part) for part in split_keys(rows.column("key").chunk(0), len(task.spec.dimensions))
    ]
    columns = {START: rows.column(START), **{dimension(n): each for n, each in enumerate(values)}}
    columns |= {name: rows.column(name) for name in schema.names if name not in columns}
    return in_order(pa.table(columns)).cast(schema)


def in_order(table: pa.Table) -> pa.Table:
    """The rows by period, then by values; the columns of dimensions may be texts or encoded."""
    names = [START, *(name for name in table.schema.names if _is_dimension(name))]
    plain = {name: _plain(table.column(name)) for name in names}
    keys = [(name, "ascending") for name in names]
    indices = pc.sort_indices(pa.table(plain), sort_keys=keys)
    return table.take(indices).combine_chunks()


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of SERIES as one, with one dictionary a dimension."""
    if len(tables) == 1:
        return tables[0].combine_chunks()
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column of a table that was combined, as one array."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.array([], column.type)


def merged(
    table: pa.Table,
    task: ActiveTask,
    keep: Sequence[int],
    starts: Ints | None = None,
    rest: Bools | None = None,
) -> pa.Table:
    """SERIES with one row for each period and each combination of the kept dimensions, in order.

    The others are null. `starts`: the period that each row goes into. `rest`: the rows that lose their values
    in the kept dimensions too, so those of a period become one. Other columns of `table` are not kept.
    """
    schema = series_schema(task)
    if not table.num_rows:
        return schema.empty_table()
    table = table.combine_chunks()
    begin = one(table.column(START)).to_numpy() if starts is None else starts
    times, when = np.unique(begin, return_inverse=True)
    coded = [Coded(when.astype(np.int64), len(times))]
    values: list[pa.Array] = []
    for number in keep:
        codes, distinct = code(one(table.column(dimension(number))))
        taken = codes.codes if rest is None else np.where(rest, codes.size, codes.codes)
        coded.append(Coded(taken, codes.size + (rest is not None)))
        values.append(distinct)
    groups = group(coded, table.num_rows)
    columns: dict[str, pa.Array] = {START: pa.array(times[groups.codes[0]])}
    for number, own, distinct in zip(keep, groups.codes[1:], values, strict=True):
        columns[dimension(number)] = distinct.take(pa.array(own, mask=own >= len(distinct)))
    for each in needed(task):
        given = {name: one(table.column(name)) for name in each.columns}
        if all(column.null_count == len(column) for column in given.values()):
            columns |= {name: pa.nulls(groups.size, kind) for name, kind in each.columns.items()}
        else:
            columns |= each.merge(given, groups.numbers, groups.size)
    full = {f.name: columns.get(f.name, pa.nulls(groups.size, _plain_type(f.type))) for f in schema}
    return in_order(pa.table(full)).cast(schema)


def _is_dimension(name: str) -> bool:
    return name[0] == "d" and name[1:].isdigit()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if kind == _VALUES else kind
