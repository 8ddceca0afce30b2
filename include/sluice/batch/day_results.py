"""What the tasks count of one day's lines, as rows of `task_results`.

This runs inside Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.batches import together
from sluice.engine.count import count
from sluice.engine.groups import code
from sluice.engine.merge import merge_guarded
from sluice.engine.outcomes import TOPIC, Reckoning
from sluice.engine.plan import EnginePlan
from sluice.engine.rowkey import split_keys, unescape_column
from sluice.engine.schema import of_version, partials_schema
from sluice.engine.set_aside import CAUGHT, Aside, Failures, reason, refuse, series_a_period
from sluice.metrics import accumulator_columns, metric
from sluice.runtime.arrays import Bools
from sluice.tasks.spec import ActiveTask

#: Partial aggregates kept before they are merged. Numbers are 100 bytes a series, sketches up to 64 KiB.
MERGE_ROWS = 500_000
MERGE_BYTES = 64 << 20
#: Series whose maps are made at a time, and their bytes: an Arrow array has at most 2 GiB.
MAP_ROWS = 65_536
MAP_BYTES = 256 << 20
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
        ("texts", pa.map_(pa.string(), pa.string())),  # of metrics whose value is a list
        ("errors", pa.map_(pa.string(), pa.float64())),  # of sketched metrics, where the value is not exact
    ]
)


def to_partials(
    batches: Iterator[pa.RecordBatch],
    plan: EnginePlan,
    backwards: EnginePlan | None = None,
    aside: Aside = refuse,
    reckoning: Reckoning | None = None,
) -> Iterator[pa.RecordBatch]:
    """Unique, living lines (partition, offset, line) to PARTIALS, merged where that makes them fewer.

    `backwards`: versions with the offsets that they were filled backwards for. `aside` is told of versions
    that fail; their PARTIALS must not be used. `reckoning` adds up what became of the lines.
    """
    reckoning = reckoning or Reckoning()
    failed: Failures = {}
    counted = (
        table for batch in together(batches) for table in _counted(batch, plan, backwards, failed, reckoning)
    )
    for some in merged_in_part(counted, aside):
        yield from some.to_batches()
    if failed:
        aside(failed)


def _counted(
    batch: pa.RecordBatch,
    plan: EnginePlan,
    backwards: EnginePlan | None,
    failed: Failures,
    reckoning: Reckoning,
) -> Iterator[pa.Table]:
    """PARTIALS of a batch; versions that failed are noted, and not tried with the next batch."""
    for own in (plan, backwards):
        if own is None:
            continue
        counted = count(batch, replace(own.without(failed), sampled=reckoning.sampled))
        failed |= counted.failed
        found = counted.tallies, counted.skipped
        if own is backwards:  # the topic's lines are the same ones
            found = tuple(table.filter(pc.greater(table["task_id"], TOPIC[0])) for table in found)
        reckoning.add(*found)
        yield counted.partials


def to_results(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[ActiveTask],
    series: int | None = None,
    aside: Aside = refuse,
) -> Iterator[pa.RecordBatch]:
    """PARTIALS to RESULTS; all rows of a series and period must be here together.

    `aside` is told of versions that fail, or have more than `series` series in a period here alone.
    """
    merged = merge_all((pa.Table.from_batches([batch.cast(partials_schema())]) for batch in batches), aside)
    for task in tasks:
        own = merged.filter(of_version(merged, task.task_id, task.version))
        try:
            yield from _task_rows(own, task, series)
        except CAUGHT as error:
            aside({(task.task_id, task.version): reason(error)})


def _task_rows(rows: pa.Table, task: ActiveTask, series: int | None) -> Iterator[pa.RecordBatch]:
    if series is not None and rows.num_rows > series:
        periods, _ = code(rows.column("period_start").combine_chunks())
        series_a_period(periods.codes, series)
    step = max(1, min(MAP_ROWS, MAP_BYTES * rows.num_rows // max(1, rows.nbytes)))
    for begin in range(0, rows.num_rows, step):
        yield from result_rows(rows.slice(begin, step), task).to_batches()


def merged_in_part(tables: Iterator[pa.Table], aside: Aside = refuse) -> Iterator[pa.Table]:
    """PARTIALS merged until they have MERGE_ROWS rows or MERGE_BYTES bytes, then those that follow.

    Lines are nearly in the order of time, so what is merged already has few series and periods in common with
    what comes later: to merge everything would hash each row again and again for little.
    """
    waiting, rows, size = list[pa.Table](), 0, 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= MERGE_ROWS or size >= MERGE_BYTES:
            yield _merged(waiting, aside)
            waiting, rows, size = [], 0, 0
    yield _merged(waiting, aside)


def merge_all(tables: Iterator[pa.Table], aside: Aside = refuse) -> pa.Table:
    """PARTIALS merged to one row a series and period.

    Tables wait for the next merge until they have MERGE_ROWS rows or MERGE_BYTES bytes, or as many as what is
    merged so far if that is more.
    """

    kept, waiting, rows, size = partials_schema().empty_table(), [], 0, 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        size += table.nbytes
        if rows >= max(MERGE_ROWS, kept.num_rows) or size >= max(MERGE_BYTES, kept.nbytes):
            kept, waiting, rows, size = _merged([kept, *waiting], aside), [], 0, 0
    return _merged([kept, *waiting], aside)


def _merged(parts: list[pa.Table], aside: Aside) -> pa.Table:
    if len(parts) == 1:
        return parts[0]  # one batch's partials have one row a series and period
    merged, failures = merge_guarded(pa.concat_tables([partials_schema().empty_table(), *parts]))
    if failures:
        aside(failures)
    return merged


def result_rows(merged: pa.Table, task: ActiveTask) -> pa.Table:
    """Merged PARTIALS of one task version to RESULTS.

    The speed layer's form of the same values is in `engine.results`. There each result is a row, with a key
    and a text, and an error of 0 is written over an earlier one. Here a series is a row with maps, for Hive:
    numbers are doubles without a text, and a day is written whole, so an error of 0 is left out.
    """
    table = merged.combine_chunks()
    size = table.num_rows
    if size == 0:
        return RESULTS.empty_table()
    columns = {name: table.column(name).chunk(0) for name in partials_schema().names}
    names = [dimension.name for dimension in task.spec.dimensions]
    values = [unescape_column(part) for part in split_keys(columns["key"], len(names))]
    found = {name: metric(name).results(columns) for name in task.spec.metrics}
    results = {name: each.numbers for name, each in found.items()}
    texts = {name: each.lists for name, each in found.items() if each.lists is not None}
    errors = {
        name: pa.array(each.errors, mask=~(each.errors > 0) | np.isnan(each.values))
        for name, each in found.items()
        if each.errors is not None
    }
    maps = {
        "dims": dict(zip(names, values, strict=True)),
        "results": results,
        "accumulators": {name: _bytes(columns[name]) for name in accumulator_columns()},
        "texts": texts,
        "errors": errors,
    }
    return pa.table(
        [
            pa.array([task.spec.name] * size),
            columns["task_id"],
            columns["version"],
            pc.multiply(columns["period_start"], 1000).cast(RESULTS.field("period_start").type),
            columns["key"],
            *(_maps(RESULTS.field(name).type, entries, size) for name, entries in maps.items()),
        ],
        schema=RESULTS,
    )


def _maps(kind: pa.MapType, columns: Mapping[str, pa.Array], size: int) -> pa.Array:
    """One map a row: an entry for each column that is not null there, in the columns' order."""
    filled = {name: column for name, column in columns.items() if column.null_count < size}
    if not filled:
        return pa.MapArray.from_arrays(
            pa.array(np.zeros(size + 1, np.int32)), pa.array([], kind.key_type), pa.array([], kind.item_type)
        )
    names = pa.array(list(filled), kind.key_type)
    items = pa.concat_arrays([column.cast(kind.item_type) for column in filled.values()])
    valid = items.is_valid().to_numpy(zero_copy_only=False).reshape(len(filled), size).T
    row, number = np.nonzero(valid)
    offsets = np.zeros(size + 1, np.int32)
    np.cumsum(valid.sum(axis=1), out=offsets[1:])
    return pa.MapArray.from_arrays(
        pa.array(offsets), names.take(pa.array(number)), items.take(pa.array(number * size + row))
    ).cast(kind)


def _bytes(column: pa.Array) -> pa.Array:
    """8-byte numbers as 8 bytes each, little-endian; bytes as they are; null stays null."""
    if pa.types.is_binary(column.type):
        return column
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    little = "<i8" if pa.types.is_integer(column.type) else "<f8"
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(little)
    packed = pa.Array.from_buffers(
        pa.binary(ACCUMULATOR_BYTES), len(numbers), [None, pa.py_buffer(numbers.tobytes())]
    ).cast(pa.binary())
    return pc.if_else(pa.array(valid), packed, pa.scalar(None, pa.binary()))
