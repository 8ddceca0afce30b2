"""A chart's data as JSON, in columns; written by Arrow, without a loop over values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import metric
from sluice.results.chart import Chart
from sluice.results.query import Where
from sluice.results.rows import STATES
from sluice.runtime.arrays import Floats, Ints
from sluice_airflow.console.chart_in import ChartQuery


class Fresh(NamedTuple):
    """Of when a chart is. commit: what its open periods are as of; 0 if none is open.

    settled: no commit changes it; a line that comes late makes its day superseded before.
    """

    commit: int
    settled: bool


def document(asked: ChartQuery, chart: Chart, fresh: Fresh, earlier: tuple[int, Chart] | None) -> bytes:
    """All that a browser needs to draw the chart.

    earlier: the same series `ms` before, if they are to be compared.
    """
    task = asked.task
    head = {
        "task": task.spec.name,
        "version": task.version,
        "timezone": task.spec.timezone,
        "period": asked.period,
        "ownPeriod": task.spec.period,
        "since": asked.since,
        "until": asked.until,
        "split": list(asked.query.dimensions or ()),
        "metrics": [
            {"name": name, "sketched": metric(name).sketched, "adds": adds(name)}
            for name in asked.query.shown_metrics(task)
        ],
        "where": [text for each in asked.query.where for text in written(each)],
        "results": urlencode(results_query(asked), doseq=True),
        "commit": fresh.commit,
        "settled": fresh.settled,
        "states": STATES,
    }
    pieces = [json.dumps(head)[:-1], ", ", *_chart(chart), ', "earlier": ']
    if earlier is None:
        pieces.append("null")
    else:
        pieces += [f'{{"shift": {earlier[0]}, ', *_chart(earlier[1]), "}"]
    return "".join([*pieces, "}"]).encode()


def adds(name: str) -> bool:
    """Whether the values of two series add up to the value of both, so that they can be stacked."""
    return name in ("count", "sum", "missing")


def written(condition: Where) -> list[str]:
    """A condition as people write it."""
    if condition.values is not None:
        return [f"{condition.dimension}={value}" for value in condition.values]
    if condition.prefix is not None:
        return [f"{condition.dimension}^={condition.prefix}"]
    return [f"{condition.dimension}~={condition.pattern}"]


def results_query(asked: ChartQuery) -> dict[str, str | list[str]]:
    """The parameters that ask the REST API for the same rows."""
    query, made = asked.query, dict[str, str | list[str]]()
    made |= {"since": str(asked.since), "until": str(asked.until)}
    made["where"] = [text for each in query.where for text in written(each)]
    made["metrics"] = list(query.metrics or ())
    made["rollup"] = [",".join(query.dimensions or ()) or "total", *([query.period] if query.period else [])]
    if query.version is not None:
        made["version"] = str(query.version)
    if query.top is not None:
        made["top"] = f"{query.top.n}:{query.top.metric}"
    return made


def _chart(chart: Chart) -> Iterator[str]:
    yield f'"times": {_list(chart.times)}, "stateOf": {_list(chart.states)}, "series": ['
    for number, series in enumerate(chart.series):
        yield f'{", " if number else ""}{{"names": {json.dumps(series.names)}, "values": {{'
        yield ", ".join(f"{json.dumps(name)}: {_list(values)}" for name, values in series.values.items())
        yield '}, "errors": {'
        yield ", ".join(f"{json.dumps(name)}: {_list(values)}" for name, values in series.errors.items())
        yield "}}"
    yield "]"


def _list(values: Floats | Ints) -> str:
    if values.dtype.kind == "f":
        texts = pc.fill_null(pa.array(values, mask=~np.isfinite(values)).cast(pa.string()), "null")
    else:
        texts = pa.array(values).cast(pa.string())
    joined: str = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), ",")[0].as_py()
    return f"[{joined}]"
