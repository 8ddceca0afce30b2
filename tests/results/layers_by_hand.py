"""Results of one layer as its store has them, written by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from sluice.engine.rowkey import RowKey
from sluice.results.compare import OFFLINE_RESULTS, ONLINE_RESULTS
from sluice.results.layer_results import Series
from sluice.tasks import ActiveTask

#: By series: the values of metrics; those of a list as JSON reads them.
Values = Mapping[Series, Mapping[str, Any]]


def online_table(task: ActiveTask, values: Values, errors: Mapping[str, float] | None = None) -> pa.Table:
    """`ONLINE_RESULTS`; `errors`: those of metrics, in all series."""
    rows = [
        {"row": row, "text": json.dumps(value), "error": (errors or {}).get(metric, 0.0)}
        for row, metric, value in _each(task, values)
    ]
    return pa.Table.from_pylist(rows, ONLINE_RESULTS)


def offline_table(task: ActiveTask, values: Values, errors: Mapping[str, float] | None = None) -> pa.Table:
    """`OFFLINE_RESULTS`: only lists have a text, and a value that is exact has no error."""
    rows = [
        {
            "row": row,
            "metric": metric,
            "value": value[0][1] if isinstance(value, list) else value,
            "text": json.dumps(value) if isinstance(value, list) else None,
            "error": (errors or {}).get(metric),
        }
        for row, metric, value in _each(task, values)
    ]
    return pa.Table.from_pylist(rows, OFFLINE_RESULTS)


def _each(task: ActiveTask, values: Values) -> list[tuple[bytes, str, Any]]:
    names = [each.name for each in task.spec.dimensions]
    return [
        (
            RowKey(task.task_id, task.version, tuple(zip(names, own, strict=True)), metric, start).encode(),
            metric,
            value,
        )
        for (start, own), found in values.items()
        for metric, value in found.items()
    ]
