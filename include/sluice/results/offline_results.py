"""The offline results of a task version, from Hive."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.rowkey import encode_column
from sluice.engine.schema import of_version, partials_schema
from sluice.metrics import accumulator_columns, accumulators
from sluice.results.compare import OFFLINE_RESULTS
from sluice.results.day_accumulators import typed
from sluice.results.periods import ALWAYS
from sluice.storage.hive import Hive, Value
from sluice.tasks.spec import ActiveTask

RESULTS = """
SELECT task_id, version, day, unix_millis(period_start), series, metric, value, texts[metric], errors[metric]
FROM task_results LATERAL VIEW explode(results) AS metric, value
WHERE topic = %(topic)s AND value IS NOT NULL
"""
OF_DAY = f"{RESULTS} AND day = %(day)s"
OF_TASK = f"""
{RESULTS} AND task_id = %(task_id)s AND version = %(version)s
AND unix_millis(period_start) >= %(start)s AND unix_millis(period_start) < %(end)s
"""
OF_DAYS = """
SELECT unix_millis(period_start), series, {columns} FROM task_results
WHERE topic = %(topic)s AND day >= %(first)s AND day <= %(last)s
  AND task_id = %(task_id)s AND version = %(version)s AND unix_millis(period_start) IN ({starts})
"""
STORED = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("day", pa.string()),
        ("period_start", pa.int64()),
        ("series", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("text", pa.string()),
        ("error", pa.float64()),
    ]
)
#: How many periods are merged from their days' accumulators at a time.
PERIODS = 200


class DayResults:
    """A day's results of all tasks, as they stand in Hive.

    They are read together, because a query for one task takes as long, and only when the first of them is
    needed; a dropped day is never read.
    """

    def __init__(self, hive: Hive, topic: str, day: date) -> None:
        self._hive, self._topic, self._day = hive, topic, day

    @cached_property
    def _rows(self) -> pa.Table:
        """The day's rows, as `STORED`."""
        return _stored(self._hive, OF_DAY, {"topic": self._topic, "day": self._day.isoformat()})

    def of(self, task: ActiveTask, starts: range) -> pa.Table:
        """`OFFLINE_RESULTS` of the task version's periods that begin in `starts` (ms)."""
        if not starts:
            return OFFLINE_RESULTS.empty_table()
        rows = self._rows
        begins = rows["period_start"]
        own = rows.filter(
            pc.and_(
                of_version(rows, task.task_id, task.version),
                pc.and_(pc.greater_equal(begins, starts.start), pc.less(begins, starts.stop)),
            )
        )
        return _keyed(task, own)


def of_days(hive: Hive, topic: str, task: ActiveTask, periods: Mapping[int, Sequence[date]]) -> pa.Table:
    """`OFFLINE_RESULTS` of periods that have lines on several days.

    `periods` has the days (UTC) of each period, by its start in ms. The results are merged from the
    accumulators of all days, because a quantile of two days does not follow from the quantiles of each.
    """
    parts, starts = [OFFLINE_RESULTS.empty_table()], sorted(periods)
    for begin in range(0, len(starts), PERIODS):
        some = {start: periods[start] for start in starts[begin : begin + PERIODS]}
        found = results(partials_of_days(hive, topic, task, some), {(task.task_id, task.version): task})
        parts.append(found.select(OFFLINE_RESULTS.names).cast(OFFLINE_RESULTS))
    return pa.concat_tables(parts)


def partials_of_days(
    hive: Hive, topic: str, task: ActiveTask, periods: Mapping[int, Sequence[date]]
) -> pa.Table:
    """Merged PARTIALS of a few such periods."""
    columns = ", ".join(f"base64(accumulators['{name}'])" for name in _needed(task))
    days = [day for own in periods.values() for day in own]
    found = hive.query(
        OF_DAYS.format(columns=columns, starts=", ".join(map(str, sorted(periods)))),
        {**_version(topic, task), "first": min(days).isoformat(), "last": max(days).isoformat()},
    ).rows
    return _merged(task, found)


def of_task(hive: Hive, task: ActiveTask, starts: range = ALWAYS) -> pa.Table:
    """`OFFLINE_RESULTS` of all computed days; periods that lie in several days are merged."""
    version = {**_version(task.spec.topic, task), "start": starts.start, "end": starts.stop}
    rows = _stored(hive, OF_TASK, version)
    days = rows.group_by("period_start").aggregate([("day", "min"), ("day", "max")])
    shared = {
        row["period_start"]: (date.fromisoformat(row["day_min"]), date.fromisoformat(row["day_max"]))
        for row in days.to_pylist()
        if row["day_min"] < row["day_max"]
    }
    whole = rows.filter(pc.invert(pc.is_in(rows["period_start"], pa.array(list(shared), pa.int64()))))
    return pa.concat_tables([_keyed(task, whole), of_days(hive, task.spec.topic, task, shared)])


def _stored(hive: Hive, query: str, parameters: Mapping[str, Value]) -> pa.Table:
    """The rows of a query for `RESULTS`, as `STORED`."""
    rows = hive.query(query, parameters).rows
    columns = list(zip(*rows, strict=True)) or [()] * len(STORED)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, STORED, strict=True)]
    return pa.table(arrays, schema=STORED)


def _version(topic: str, task: ActiveTask) -> dict[str, Value]:
    return {"topic": topic, "task_id": task.task_id, "version": task.version}


def _needed(task: ActiveTask) -> list[str]:
    """The accumulator columns that the task's metrics are computed from."""
    return [name for each in accumulators(task.spec.metrics) for name in each.columns]


def _keyed(task: ActiveTask, rows: pa.Table) -> pa.Table:
    """`OFFLINE_RESULTS` of the task version's rows of `STORED`."""
    names = [dimension.name for dimension in task.spec.dimensions]
    tables = [OFFLINE_RESULTS.empty_table()]
    for metric in task.spec.metrics:
        own = rows.filter(pc.equal(rows["metric"], metric))
        keys, begins = (own[name].combine_chunks() for name in ("series", "period_start"))
        row = encode_column(task.label, names, keys, metric, begins)
        columns = [row, *(own[name] for name in OFFLINE_RESULTS.names[1:])]
        tables.append(pa.table(columns, schema=OFFLINE_RESULTS))
    return pa.concat_tables(tables)


def _merged(task: ActiveTask, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Merge rows into PARTIALS.

    A row is a period's start (ms), a series, and the columns `_needed` in base 64.
    """
    if not rows:
        return partials_schema().empty_table()
    begins, series, *values = (list(column) for column in zip(*rows, strict=True))
    given = dict(zip(_needed(task), values, strict=True))
    columns = {
        "task_id": pa.array([task.task_id] * len(rows), pa.int32()),
        "version": pa.array([task.version] * len(rows), pa.int32()),
        "period_start": pa.array(begins, pa.int64()),
        "key": pa.array(series, pa.string()),
        **{
            name: _read(given.get(name, [None] * len(rows)), kind)
            for name, kind in accumulator_columns().items()
        },
    }
    return merge(pa.table([columns[name] for name in partials_schema().names], schema=partials_schema()))


def _read(column: Sequence[str | None], kind: pa.DataType) -> pa.Array:
    """Read a column of accumulators, which come from Hive in base 64."""
    stored = [None if text is None else b64decode(text) for text in column]
    return typed(pa.array(stored, pa.binary()), kind)
