"""What the tasks count of one day's lines, as rows of `task_results`; runs inside Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import COLUMNS, METRICS
from sluice.statistics.extract import Bools
from sluice.statistics.merge import merge
from sluice.statistics.partials import count
from sluice.statistics.plan import Plan
from sluice.statistics.rowkey import split_keys, unescape_column
from sluice.statistics.schema import PARTIALS
from sluice.tasks.spec import ActiveTask

#: Partial aggregates kept before they are merged: about 100 bytes each.
MERGE_ROWS = 500_000
ACCUMULATOR_BYTES = 8

RESULTS = pa.schema(
    [
        ("task", pa.string()),
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("period_start", pa.timestamp("us", tz="UTC")),
        ("series", pa.string()),
        ("dims", pa.map_(pa.string(), pa.string())),
        ("results", pa.map_(pa.string(), pa.float64())),
        ("accumulators", pa.map_(pa.string(), pa.binary())),
    ]
)


def to_partials(batches: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """Unique, living lines (partition, offset, line) to PARTIALS, merged as far as they are here together."""
    yield from _merged(count(batch, plan).partials for batch in batches)


def to_results(batches: Iterator[pa.RecordBatch], tasks: Sequence[ActiveTask]) -> Iterator[pa.RecordBatch]:
    """PARTIALS, all of a series and period together, to RESULTS."""
    merged = merge_all(pa.Table.from_batches([batch.cast(PARTIALS)]) for batch in batches)
    for task in tasks:
        own = pc.and_(
            pc.equal(merged.column("task_id"), task.task_id), pc.equal(merged.column("version"), task.version)
        )
        yield from result_rows(merged.filter(own), task).to_batches()


def merge_all(tables: Iterator[pa.Table]) -> pa.Table:
    """PARTIALS merged to one row a series and period; holds MERGE_ROWS more than that at a time."""
    kept, waiting, rows = PARTIALS.empty_table(), [], 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= max(MERGE_ROWS, kept.num_rows):
            kept, waiting, rows = merge(pa.concat_tables([kept, *waiting])), [], 0
    return merge(pa.concat_tables([kept, *waiting]))


def result_rows(merged: pa.Table, task: ActiveTask) -> pa.Table:
    """Merged PARTIALS of one task version to RESULTS."""
    table = merged.combine_chunks()
    size = table.num_rows
    if size == 0:
        return RESULTS.empty_table()
    columns = {name: table.column(name).chunk(0) for name in PARTIALS.names}
    names = [dimension.name for dimension in task.spec.dimensions]
    values = [unescape_column(part) for part in split_keys(columns["key"], len(names))]
    metrics = {name: METRICS[name].results(columns).values for name in task.spec.metrics}
    return pa.table(
        [
            pa.array([task.spec.name] * size),
            columns["task_id"],
            columns["version"],
            pc.multiply(columns["period_start"], 1000).cast(RESULTS.field("period_start").type),
            columns["key"],
            _maps(RESULTS.field("dims").type, dict(zip(names, values, strict=True)), size),
            _maps(
                RESULTS.field("results").type,
                {name: pa.array(found, mask=np.isnan(found)) for name, found in metrics.items()},
                size,
            ),
            _maps(
                RESULTS.field("accumulators").type, {name: _bytes(columns[name]) for name in COLUMNS}, size
            ),
        ],
        schema=RESULTS,
    )


def _merged(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from merge_all(tables).to_batches()


def _maps(kind: pa.MapType, columns: Mapping[str, pa.Array], size: int) -> pa.Array:
    """One map a row: an entry for each column that is not null there, in the columns' order."""
    valid = np.empty((size, len(columns)), bool)
    for i, column in enumerate(columns.values()):
        valid[:, i] = column.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(valid.sum(axis=1))).astype(np.int32)
    names = pa.array(list(columns), kind.key_type)
    keys = names.take(pa.array(np.nonzero(valid)[1])) if len(columns) else pa.array([], kind.key_type)
    items = pa.concat_arrays(list(columns.values())) if columns else pa.array([], kind.item_type)
    row, column_number = np.nonzero(valid)
    return pa.MapArray.from_arrays(
        pa.array(offsets), keys, items.take(pa.array(column_number * size + row)).cast(kind.item_type)
    ).cast(kind)


def _bytes(column: pa.Array) -> pa.Array:
    """8-byte numbers as 8 bytes each, little-endian; null stays null."""
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    little = "<i8" if pa.types.is_integer(column.type) else "<f8"
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(little)
    packed = pa.Array.from_buffers(
        pa.binary(ACCUMULATOR_BYTES), len(numbers), [None, pa.py_buffer(numbers.tobytes())]
    ).cast(pa.binary())
    return pc.if_else(pa.array(valid), packed, pa.scalar(None, pa.binary()))
