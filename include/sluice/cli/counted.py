"""What a task counted, read back from either layer into one shape, so that the two can be compared."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from sluice.metrics import METRICS
from sluice.settings import Settings
from sluice.tasks import ActiveTask
from sluice.tasks.store import TaskStore, UnknownTask

Number = int | float
Result = tuple[int, tuple[str, ...], str, Number]  # period start (ms), dimension values, metric, value
Series = tuple[int, tuple[str, ...]]  # period start in ms since the epoch, dimension values

#: How a metric of all series together comes from those of each.
OVER_ALL: dict[str, Callable[[Iterable[Number]], Number]] = {
    "count": sum,
    "sum": math.fsum,
    "missing": sum,
    "min": min,
    "max": max,
}

#: A person waits: HBase's answer is not waited for as long as the speed layer waits.
PATIENCE_SECONDS = 10.0


class UnknownVersion(LookupError):
    """The task has no version of that number."""


@dataclass
class Counted:
    """A task version's results: for each series the value of each metric that has one."""

    task: ActiveTask
    values: dict[Series, dict[str, Number]] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[str]:
        return [d.name for d in self.task.spec.dimensions]

    @property
    def metrics(self) -> list[str]:
        return list(self.task.spec.metrics)

    @property
    def columns(self) -> list[str]:
        return ["period", *self.dimensions, *self.metrics]

    def rows(self) -> Iterator[list[object]]:
        """Sorted by period, then by dimension values."""
        for (start, dims), found in sorted(self.values.items()):
            when = dt.datetime.fromtimestamp(start / 1000, dt.UTC)
            yield [when, *dims, *(found.get(m) for m in self.metrics)]

    def over_all(self, metric: str) -> Number | None:
        """The metric over all series together; None where their results do not tell (an average)."""
        found = [v[metric] for v in self.values.values() if metric in v]
        if metric not in OVER_ALL or not found:
            return None
        value = OVER_ALL[metric](found)
        return int(value) if float(value).is_integer() else value


@dataclass(frozen=True)
class Difference:
    """One result that the layers do not agree on; None where a layer has no value."""

    series: Series
    metric: str
    online: Number | None
    offline: Number | None


def counted(
    settings: Settings,
    name: str,
    layer: str,
    *,
    version: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> Counted:
    """A task's results from `layer` (online, offline, merged), for periods in [since, until), in ms.

    Raises UnknownTask, UnknownVersion.
    """
    task = find(settings, name, version)
    read = _offline(settings, task) if layer == "offline" else _hbase(settings, task, final=layer == "merged")
    answer = Counted(task)
    for start, dims, metric, value in read:
        if (since is None or start >= since) and (until is None or start < until):
            answer.values.setdefault((start, dims), {})[metric] = value
    return answer


def find(settings: Settings, name: str, version: int | None = None) -> ActiveTask:
    """The task of that name, at its current version or at the one asked for."""
    from sluice.storage.postgres import engine

    store = TaskStore(engine(settings))
    try:
        task = store.get(name)
    except UnknownTask:
        known = ", ".join(each.name for each in store.list()) or "none: `sluice tasks apply` adds some"
        raise UnknownTask(f"there is no task {name!r}; the tasks are {known}") from None
    if version is not None and not 1 <= version <= task.version:
        raise UnknownVersion(f"task {name!r} has no version {version}: its versions are 1 to {task.version}")
    return store.version(task.task_id, version or task.version)


def _hbase(settings: Settings, task: ActiveTask, final: bool) -> Iterator[Result]:
    """Online values; with `final` the published one where there is one."""
    from sluice.statistics.rowkey import RowKey, prefix
    from sluice.storage import hbase

    store = hbase.HBase.of(settings, patience=PATIENCE_SECONDS)
    columns = [hbase.ONLINE, *([hbase.FINAL] if final else [])]
    for row, cells in store.scan(hbase.RESULTS, prefix=prefix(task.label), columns=columns):
        key = RowKey.decode(row)
        text = cells.get(hbase.FINAL) or cells[hbase.ONLINE]
        yield key.period_start, tuple(value for _, value in key.dimensions), key.metric, _number(text)


def _offline(settings: Settings, task: ActiveTask) -> Iterator[Result]:
    from sluice.statistics.rowkey import series_values
    from sluice.storage.hive import Hive

    dimensions = len(task.spec.dimensions)
    with Hive(settings) as hive:
        answer = hive.query(
            "SELECT unix_millis(period_start), series, metric, value "
            "FROM task_results LATERAL VIEW explode(results) r AS metric, value "
            "WHERE topic = %(topic)s AND task_id = %(task_id)s AND version = %(version)s "
            "AND value IS NOT NULL",
            {"topic": task.spec.topic, "task_id": task.task_id, "version": task.version},
        )
    for start, series, metric, value in answer.rows:
        yield start, tuple(series_values(series, dimensions)), metric, value


def _number(text: bytes) -> Number:
    """As the speed layer writes it: an integer without a point, anything else as repr(float)."""
    return int(text) if text.lstrip(b"-").isdigit() else float(text)


def differences(online: Counted, offline: Counted) -> Iterator[Difference]:
    """Each result that is not the same in both layers, or that one of them lacks."""
    for series in sorted(online.values.keys() | offline.values.keys()):
        a, b = online.values.get(series, {}), offline.values.get(series, {})
        for name in sorted(a.keys() | b.keys()):
            x, y = a.get(name), b.get(name)
            if x is None or y is None or not _same(x, y, METRICS[name].tolerance):
                yield Difference(series, name, x, y)


def _same(x: Number, y: Number, tolerance: float) -> bool:
    """Whole numbers agree exactly; sums of fractions depend on the order of their terms."""
    whole = float(x).is_integer() and float(y).is_integer()
    return float(x) == float(y) or (not whole and math.isclose(x, y, rel_tol=tolerance))
