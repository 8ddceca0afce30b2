"""A task's results, read from either layer into one shape so that they can be compared."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from zoneinfo import ZoneInfo

import pyarrow as pa

from sluice.results.patience import PATIENCE_SECONDS
from sluice.results.periods import Interval
from sluice.runtime.settings import Settings
from sluice.tasks import ActiveTask

Number = int | float
#: A list metric's value: what was counted most, with its counts.
Ranking = list[list[str | Number]]
Value = Number | Ranking
#: Period start (ms), dimension values, metric, value, stated error (0: the value is exact).
Result = tuple[int, tuple[str, ...], str, Value, float]
Series = tuple[int, tuple[str, ...]]  # period start in ms since the epoch, dimension values

#: How a metric over all series together is computed from each series' value.
OVER_ALL: dict[str, Callable[[Iterable[Number]], Number]] = {
    "count": sum,
    "sum": math.fsum,
    "missing": sum,
    "min": min,
    "max": max,
}

#: The region servers filter by time if less than this is asked for (100 days).
FILTERED_MS = 100 * 86_400_000


@dataclass
class CountedResults:
    """A task version's results: each series' metrics that have a value, and the errors."""

    task: ActiveTask
    values: dict[Series, dict[str, Value]] = field(default_factory=dict)
    errors: dict[Series, dict[str, float]] = field(default_factory=dict)  # those that are not 0

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
        """Sorted by period (in the task's time zone), then by dimension values."""
        for series in sorted(self.values):
            yield [self._period(series), *series[1], *(self.values[series].get(m) for m in self.metrics)]

    def for_people(self) -> tuple[list[str], Iterator[list[object]]]:
        """Columns and rows; a value that is not exact is text, with its error."""
        return self.columns, (
            [*row[: -len(self.metrics)], *map(with_error, self.metrics, row[-len(self.metrics) :], errors)]
            for row, errors in zip(self.rows(), self._errors(), strict=True)
        )

    def for_programs(self) -> tuple[list[str], Iterator[list[object]]]:
        """Columns and rows; after each sketched metric its error, 0 where it is exact."""
        from sluice.results.agreement import has_error

        sketched = [has_error(name) for name in self.metrics]
        names = [[m, f"{m}_error"] if wide else [m] for m, wide in zip(self.metrics, sketched, strict=True)]

        def rows() -> Iterator[list[object]]:
            for row, errors in zip(self.rows(), self._errors(), strict=True):
                first, values = row[: -len(self.metrics)], row[-len(self.metrics) :]
                for value, error, wide in zip(values, errors, sketched, strict=True):
                    first += [value, None if value is None else error] if wide else [value]
                yield first

        return ["period", *self.dimensions, *(name for pair in names for name in pair)], rows()

    def _errors(self) -> Iterator[list[float]]:
        """The errors of each row's metrics, in the order of `rows`."""
        for series in sorted(self.values):
            yield [self.errors.get(series, {}).get(name, 0.0) for name in self.metrics]

    def over_all(self, metric: str) -> Number | None:
        """The metric over all series together; None if their values do not tell it (an average)."""
        found = [v[metric] for v in self.values.values() if metric in v]
        numbers = [value for value in found if not isinstance(value, list)]
        if metric not in OVER_ALL or not numbers:
            return None
        value = OVER_ALL[metric](numbers)
        return int(value) if float(value).is_integer() else value

    def apart_from(self, days: Collection[dt.date]) -> CountedResults:
        """The same without the periods that touch one of these days (UTC)."""
        if not days:
            return self
        span = self.task.spec.span
        starts = {start for start, _ in self.values}
        kept = {s for s in starts if not any(day in days for day in Interval(s, span.end(s)).days)}
        values = {series: found for series, found in self.values.items() if series[0] in kept}
        errors = {series: found for series, found in self.errors.items() if series[0] in kept}
        return CountedResults(self.task, values, errors)

    def add(self, result: Result) -> None:
        start, dims, metric, value, error = result
        self.values.setdefault((start, dims), {})[metric] = value
        if error > 0:
            self.errors.setdefault((start, dims), {})[metric] = error

    def _period(self, series: Series) -> dt.datetime:
        zone = self.task.spec.timezone
        return dt.datetime.fromtimestamp(series[0] / 1000, dt.UTC if zone == "UTC" else ZoneInfo(zone))


@dataclass(frozen=True)
class Difference:
    """One result on which the layers disagree; None where a layer has no value."""

    series: Series
    metric: str
    online: Value | None
    offline: Value | None


def counted(
    settings: Settings,
    name: str,
    layer: str,
    *,
    version: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> CountedResults:
    """A task's results from `layer`, for periods that start in [since, until), in ms.

    `layer` is online, offline or merged. Raises UnknownTask, UnknownVersion.
    """
    from sluice.results.layers import find
    from sluice.results.periods import within

    task = find(settings, name, version)
    starts = within(since, until)
    if layer == "offline":
        read = _offline(settings, task, starts)
    else:
        read = _hbase(settings, task, starts, final=layer == "merged")
    answer = CountedResults(task)
    for result in read:
        if result[0] in starts:
            answer.add(result)
    return answer


def _hbase(settings: Settings, task: ActiveTask, starts: range, final: bool) -> Iterator[Result]:
    """Online values; with `final` the published value instead where there is one."""
    from sluice.engine.rowkey import RowKey, prefix
    from sluice.results.online_results import ends_near
    from sluice.state.cells import ERROR_OF, stated_error
    from sluice.storage import hbase

    store = hbase.HBase.of(settings, patience=PATIENCE_SECONDS)
    wanted = [hbase.FINAL, hbase.ONLINE] if final else [hbase.ONLINE]
    columns = [*wanted, *(ERROR_OF[column] for column in wanted)]
    near = ends_near(starts) if 0 < len(starts) < FILTERED_MS else None
    for row, cells in store.scan(hbase.RESULTS, prefix=prefix(task.label), columns=columns, row_filter=near):
        column = next(column for column in wanted if column in cells)
        key = RowKey.decode(row)
        dims = tuple(value for _, value in key.dimensions)
        yield key.period_start, dims, key.metric, _value(cells[column]), stated_error(cells, column)


def _offline(settings: Settings, task: ActiveTask, starts: range) -> Iterator[Result]:
    from sluice.results.offline_results import of_task
    from sluice.storage.hive import Hive

    with Hive(settings) as hive:
        yield from results_of(of_task(hive, task, starts))


def results_of(found: pa.Table) -> Iterator[Result]:
    """Results from `compare.ONLINE_RESULTS` or `compare.OFFLINE_RESULTS`."""
    from sluice.engine.rowkey import RowKey

    numbers = found.column("value").to_pylist() if "value" in found.column_names else [None] * len(found)
    columns = (found.column(name).to_pylist() for name in ("row", "text", "error"))
    for row, text, error, number in zip(*columns, numbers, strict=True):
        key = RowKey.decode(row)
        dims = tuple(value for _, value in key.dimensions)
        value = number if text is None else _value(text.encode())
        yield key.period_start, dims, key.metric, value, error or 0.0


def _value(text: bytes) -> Value:
    """A value as the layers write it.

    An integer is written without a point, a list as JSON, anything else as repr(float).
    """
    if text.lstrip(b"-").isdigit():
        return int(text)
    if text.startswith(b"["):
        ranking: Ranking = json.loads(text)
        return ranking
    return float(text)


def with_error(metric: str, value: object, error: float) -> object:
    """A value as people read it: with its stated error, if it has one."""
    if value is None or not error:
        return value
    # The error of a number of distinct values is relative to that number; a list's error is in counts.
    stated = f"{error:.1%}" if metric == "unique" else f"{error:.3g}"
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return f"{json.dumps(number, ensure_ascii=False)} ± {stated}"


def differences(online: CountedResults, offline: CountedResults) -> Iterator[Difference]:
    """Each result on which the layers disagree, or that one of them lacks.

    `results.agreement` has the rules.
    """
    import pandas as pd

    from sluice.results.agreement import judge

    found: list[tuple[Series, str]] = [
        (series, name)
        for series in sorted(online.values.keys() | offline.values.keys())
        for name in sorted({**online.values.get(series, {}), **offline.values.get(series, {})})
    ]
    if not found:
        return

    def sides(side: CountedResults) -> tuple[list[Value | None], list[float]]:
        values = [side.values.get(series, {}).get(name) for series, name in found]
        return values, [side.errors.get(series, {}).get(name, 0.0) for series, name in found]

    (ours, our_errors), (theirs, their_errors) = sides(online), sides(offline)
    frame = pd.DataFrame(
        {
            "metric": [name for _, name in found],
            "online_text": pd.Series([_text(value) for value in ours], dtype=object),
            "online_error": our_errors,
            "offline": [math.nan if v is None or isinstance(v, list) else float(v) for v in theirs],
            "offline_text": pd.Series(
                [_text(v) if isinstance(v, list) else None for v in theirs], dtype=object
            ),
            "offline_error": their_errors,
        }
    )
    for (series, name), x, y, wrong in zip(found, ours, theirs, judge(frame)["differs"], strict=True):
        if wrong:
            yield Difference(series, name, x, y)


def _text(value: Value | None) -> str | None:
    if value is None:
        return None
    return json.dumps(value) if isinstance(value, list) else repr(value)
