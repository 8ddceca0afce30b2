"""A task's results by series, for tests that compare them with what they counted themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from sluice.engine.rowkey import RowKey, prefix
from sluice.results.layer_results import (
    LayerResult,
    ResultLayer,
    ResultValue,
    Series,
    each_result,
    layer_results,
    read_value,
)
from sluice.results.layers import find
from sluice.results.periods import within
from sluice.runtime.settings import Settings
from sluice.state.cells import stated_error
from sluice.storage.hbase import FINAL, FINAL_ERROR, RESULTS, HBase
from sluice.tasks import ActiveTask


class BySeries(NamedTuple):
    """The values and, where they are not exact, the stated errors: by series, then by metric."""

    task: ActiveTask
    values: dict[Series, dict[str, ResultValue]]
    errors: dict[Series, dict[str, float]]


def by_series(task: ActiveTask, results: Iterable[LayerResult]) -> BySeries:
    values: defaultdict[Series, dict[str, ResultValue]] = defaultdict(dict)
    errors: defaultdict[Series, dict[str, float]] = defaultdict(dict)
    for each in results:
        values[each.series][each.key.metric] = each.value
        if each.error:
            errors[each.series][each.key.metric] = each.error
    return BySeries(task, dict(values), dict(errors))


def stored_results(
    settings: Settings,
    name: str,
    layer: Literal["online", "offline", "published"],
    *,
    since: int | None = None,
    until: int | None = None,
) -> BySeries:
    """What a layer stored of a task's periods that start in [since, until), in ms.

    published: the final cells of HBase, and the online ones where there is none.
    """
    task, starts = find(settings, name), within(since, until)
    if layer != "published":
        return by_series(task, each_result(layer_results(settings, task, ResultLayer(layer), starts)))
    found = {
        each.key: each for each in each_result(layer_results(settings, task, ResultLayer.ONLINE, starts))
    }
    with HBase.of(settings) as hbase:
        columns = [FINAL, FINAL_ERROR]
        for row, cells in hbase.scan(RESULTS, prefix=prefix(task.label), columns=columns):
            key = RowKey.decode(row)
            if FINAL in cells and key.period_start in starts:
                value = read_value(cells[FINAL].decode())
                found[key] = LayerResult(key, value, stated_error(cells, FINAL))
    return by_series(task, found.values())
