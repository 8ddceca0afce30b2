"""Results as rows to print: a value that is not exact is shown with its error."""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from sluice.results.formats import OTHER

if TYPE_CHECKING:
    from sluice.results.layer_results import LayerResult, Series
    from sluice.tasks.spec import ActiveTask

#: Columns, and rows of them.
Printed = tuple[list[str], Iterator[list[object]]]


def for_people(schema: pa.Schema, batches: Iterable[pa.RecordBatch], metrics: Sequence[str]) -> Printed:
    """The rows of an answer; a value that is not exact is text, with its error."""
    columns = [name for name in schema.names if name not in {f"{metric}_error" for metric in metrics}]
    encoded = {field.name for field in schema if pa.types.is_dictionary(field.type)}

    def cell(row: dict[str, Any], name: str) -> object:
        value = row[name]
        if name in metrics:
            value = json.loads(value) if isinstance(value, str) else value
            return with_error(name, value, row.get(f"{name}_error") or 0.0)
        return OTHER if value is None and name in encoded else value

    def rows() -> Iterator[list[object]]:
        for batch in batches:
            for row in batch.to_pylist():
                yield [cell(row, name) for name in columns]

    return columns, rows()


def layer_for_people(task: ActiveTask, results: Iterable[LayerResult]) -> Printed:
    """A row for each period and series of a layer, in this order, with errors as in `for_people`."""
    names = task.spec.metrics

    def cells(own: Mapping[str, LayerResult]) -> list[object]:
        return [with_error(n, own[n].value, own[n].error) if n in own else None for n in names]

    return ["period", *_dimensions(task), *names], _layer_rows(task, results, cells)


def layer_for_programs(task: ActiveTask, results: Iterable[LayerResult]) -> Printed:
    """The same with a column for the error of each sketched metric, 0 where the value is exact."""
    from sluice.results.agreement import has_error

    sketched = {name: has_error(name) for name in task.spec.metrics}
    names = [[name, f"{name}_error"] if wide else [name] for name, wide in sketched.items()]

    def cells(own: Mapping[str, LayerResult]) -> list[object]:
        found: list[object] = []
        for name, wide in sketched.items():
            value, error = (own[name].value, own[name].error) if name in own else (None, None)
            found += [value, error] if wide else [value]
        return found

    return ["period", *_dimensions(task), *chain.from_iterable(names)], _layer_rows(task, results, cells)


def _dimensions(task: ActiveTask) -> list[str]:
    return [each.name for each in task.spec.dimensions]


def _layer_rows(
    task: ActiveTask,
    results: Iterable[LayerResult],
    cells: Callable[[Mapping[str, LayerResult]], list[object]],
) -> Iterator[list[object]]:
    """The rows, with the period in the task's time zone; `cells` makes those of a series' metrics."""
    found: defaultdict[Series, dict[str, LayerResult]] = defaultdict(dict)
    for each in results:
        found[each.series][each.key.metric] = each
    zone = dt.UTC if task.spec.timezone == "UTC" else ZoneInfo(task.spec.timezone)
    for start, dimensions in sorted(found):
        yield [dt.datetime.fromtimestamp(start / 1000, zone), *dimensions, *cells(found[start, dimensions])]


def with_error(metric: str, value: object, error: float) -> object:
    """A value as people read it: with its stated error, if it has one."""
    if value is None or not error:
        return value
    # The error of a number of distinct values is relative to that number; a list's error is in counts.
    stated = f"{error:.1%}" if metric == "unique" else f"{error:.3g}"
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    return f"{json.dumps(number, ensure_ascii=False)} ± {stated}"
