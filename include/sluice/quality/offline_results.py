"""The offline results of one task version, out of Hive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa

from sluice.metrics import COLUMNS
from sluice.statistics.merge import merge
from sluice.statistics.results import results
from sluice.statistics.rowkey import encode_column
from sluice.statistics.schema import PARTIALS
from sluice.storage.hive import Hive, Value
from sluice.tasks.spec import ActiveTask

SCHEMA = pa.schema([("row", pa.binary()), ("metric", pa.string()), ("value", pa.float64())])

OF_DAY = """
SELECT unix_millis(period_start), series, {metrics} FROM task_results
WHERE topic = %(topic)s AND day = %(day)s AND task_id = %(task_id)s AND version = %(version)s
  AND unix_millis(period_start) >= %(start)s AND unix_millis(period_start) < %(end)s
"""
OF_DAYS = """
SELECT unix_millis(period_start), series, {accumulators} FROM task_results
WHERE topic = %(topic)s AND day >= %(first)s AND day <= %(last)s
  AND task_id = %(task_id)s AND version = %(version)s AND unix_millis(period_start) = %(start)s
"""


def of_day(hive: Hive, topic: str, task: ActiveTask, day: date, starts: range) -> pa.Table:
    """`SCHEMA` of the day's periods that begin in `starts` (ms): as they stand in `results`."""
    metrics = task.spec.metrics  # names from the registry, so they may stand in SQL
    found = hive.query(
        OF_DAY.format(metrics=", ".join(f"results['{name}']" for name in metrics)),
        {**_version(topic, task), "day": day.isoformat(), "start": starts.start, "end": starts.stop},
    ).rows
    if not found:
        return SCHEMA.empty_table()
    begins, series, *values = (list(column) for column in zip(*found, strict=True))
    names = [dimension.name for dimension in task.spec.dimensions]
    parts = []
    for metric, column in zip(metrics, values, strict=True):
        numbers = pa.array(column, pa.float64())
        there = numbers.is_valid()
        keys, periods = (
            pa.array(series, pa.string()).filter(there),
            pa.array(begins, pa.int64()).filter(there),
        )
        rows = encode_column(task.label, names, keys, metric, periods)
        parts.append(pa.table([rows, pa.array([metric] * len(rows)), numbers.filter(there)], schema=SCHEMA))
    return pa.concat_tables(parts)


def of_days(hive: Hive, topic: str, task: ActiveTask, days: Sequence[date], start_ms: int) -> pa.Table:
    """`SCHEMA` of one period that lies in several days: merged from the accumulators of all of them."""
    found = hive.query(
        OF_DAYS.format(accumulators=", ".join(f"hex(accumulators['{name}'])" for name in COLUMNS)),
        {
            **_version(topic, task),
            "first": min(days).isoformat(),
            "last": max(days).isoformat(),
            "start": start_ms,
        },
    ).rows
    if not found:
        return SCHEMA.empty_table()
    starts, series, *values = (list(column) for column in zip(*found, strict=True))
    columns = {
        "task_id": pa.array([task.task_id] * len(starts), pa.int32()),
        "version": pa.array([task.version] * len(starts), pa.int32()),
        "period_start": pa.array(starts, pa.int64()),
        "key": pa.array(series, pa.string()),
        **{
            name: _numbers(column, kind) for (name, kind), column in zip(COLUMNS.items(), values, strict=True)
        },
    }
    merged = merge(pa.table([columns[name] for name in PARTIALS.names], schema=PARTIALS))
    table = results(merged, {(task.task_id, task.version): task})
    return table.select(SCHEMA.names).cast(SCHEMA)


def _version(topic: str, task: ActiveTask) -> dict[str, Value]:
    return {"topic": topic, "task_id": task.task_id, "version": task.version}


def _numbers(column: list[str | None], kind: pa.DataType) -> pa.Array:
    """8 little-endian bytes in hexadecimal, or None, to numbers."""
    packed = bytes.fromhex("".join(text or "00" * 8 for text in column))
    numbers = np.frombuffer(packed, "<i8" if pa.types.is_integer(kind) else "<f8")
    return pa.array(numbers, mask=np.array([text is None for text in column])).cast(kind)
