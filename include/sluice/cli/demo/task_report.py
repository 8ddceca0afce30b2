"""One task's part of the demo's report: the results of both layers compared, and what they add up to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable
from datetime import date

import pandas as pd
import pyarrow as pa

from sluice.cli.demo.report import MetricTotal, TaskReport
from sluice.engine.rowkey import RowKey
from sluice.results.agreement import how
from sluice.results.compare import compare
from sluice.results.layer_results import (
    LayerResult,
    Number,
    ResultLayer,
    each_result,
    layer_results,
    read_value,
)
from sluice.results.layers import find
from sluice.results.periods import Interval
from sluice.runtime.settings import Settings
from sluice.tasks.spec import ActiveTask

#: At most this many differing results of a task are named; the table has their number.
SHOWN = 10
#: How many characters of a list are shown.
LONGEST = 120

#: How a metric over all series together is computed from each series' value.
OVER_ALL: dict[str, Callable[[Iterable[Number]], Number]] = {
    "count": sum,
    "sum": math.fsum,
    "missing": sum,
    "min": min,
    "max": max,
}


def compare_task(
    settings: Settings, name: str, error: str | None = None, left_out: Collection[date] = ()
) -> TaskReport:
    """Compare every online result of a task (as the speed layer left it) with the offline one.

    `error`: why the task was set aside, if it was. `left_out`: days; periods that touch one are not compared.
    """
    task = find(settings, name)
    online, offline = (layer_results(settings, task, layer) for layer in ResultLayer)
    return task_report(task, online, offline, error, left_out)


def task_report(
    task: ActiveTask,
    online: pa.Table,
    offline: pa.Table,
    error: str | None = None,
    left_out: Collection[date] = (),
) -> TaskReport:
    """The same for `ONLINE_RESULTS` and `OFFLINE_RESULTS`. Raises BadRowKey."""
    online, offline = (_apart_from(left_out, found, task) for found in (online, offline))
    ours, theirs = list(each_result(online)), list(each_result(offline))
    frame = compare(task.spec.name, online, offline).frame
    wrong = frame[frame["differs"]]
    metrics = [
        MetricTotal(
            metric=m,
            results=sum(each.key.metric == m for each in ours),
            online=over_all(ours, m),
            offline=over_all(theirs, m),
            differing=int((wrong["metric"] == m).sum()),
            rule=how(m),
        )
        for m in task.spec.metrics
    ]
    return TaskReport(
        name=task.spec.name,
        version=task.version,
        series=len({each.key.dimensions for each in (*ours, *theirs)}),
        results=len(ours),
        online_total=metrics[0].online,
        offline_total=metrics[0].offline,
        differing=len(wrong),
        metrics=metrics,
        examples=_examples(task.spec.name, wrong),
        error=error,
    )


def over_all(results: Iterable[LayerResult], metric: str) -> Number | None:
    """The metric over all series together; None if their values do not tell it (an average)."""
    values = (each.value for each in results if each.key.metric == metric)
    numbers = [value for value in values if not isinstance(value, list)]
    if metric not in OVER_ALL or not numbers:
        return None
    value = OVER_ALL[metric](numbers)
    return int(value) if float(value).is_integer() else value


def short(text: str) -> str:
    """A value in one line; of a long list only its beginning."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _apart_from(days: Collection[date], found: pa.Table, task: ActiveTask) -> pa.Table:
    """The results without those of periods that touch one of these days (UTC)."""
    if not days:
        return found
    starts = [RowKey.decode(row).period_start for row in found.column("row").to_pylist()]
    span = task.spec.span
    kept = {s for s in set(starts) if not any(day in days for day in Interval(s, span.end(s)).days)}
    return found.filter(pa.array([start in kept for start in starts], pa.bool_()))


def _examples(name: str, wrong: pd.DataFrame) -> list[str]:
    """The first differing results in order of time, series and metric."""
    keys = [RowKey.decode(row) for row in wrong["row"]]

    def order(at: int) -> tuple[int, tuple[tuple[str, str], ...], str]:
        return keys[at].period_start, keys[at].dimensions, keys[at].metric

    first = sorted(range(len(keys)), key=order)[:SHOWN]
    return [
        f"{name} {keys[at].metric} of {'/'.join(value for _, value in keys[at].dimensions) or 'all'} at "
        f"{keys[at].period_start}: online {_json(row['online_text'])}, "
        f"offline {_json(row['offline_text'], row['offline'])}"
        for at, (_, row) in zip(first, wrong.iloc[first].iterrows(), strict=True)
    ]


def _json(text: object, number: float = math.nan) -> str:
    """A value by its stored text, or by the number that stands alone; null: the layer has none."""
    value = read_value(text) if isinstance(text, str) else None if math.isnan(number) else number
    return short(json.dumps(value, ensure_ascii=False))
