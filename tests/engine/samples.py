"""Lines, batches and tasks for the engine, and the same counting done a line at a time."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.state.cells import online_cells
from sluice.tasks import ActiveTask, TaskSpec, parse_documents
from sluice.transmission.line_schema import LINE_SCHEMA

LIMITS = Limits()


def line(
    client: str = "10.0.0.1",
    at: datetime = datetime(2015, 5, 17, 10, 5, 3, tzinfo=UTC),
    path: str = "/",
    status: str = "200",
    size: str = "512",
) -> bytes:
    """A line of the combined log."""
    stamp = at.strftime("%d/%b/%Y:%H:%M:%S %z")
    return f'{client} - - [{stamp}] "GET {path} HTTP/1.1" {status} {size} "-" "curl/8.0"'.encode()


def records(lines: Sequence[bytes], partition: int = 0, first: int = 0) -> pa.RecordBatch:
    """The lines as LINE_SCHEMA, as if read from one file."""
    count = len(lines)
    ends = [0]
    for each in lines:
        ends.append(ends[-1] + len(each) + 1)
    return pa.record_batch(
        [
            pa.array([partition] * count, pa.int32()),
            pa.array(range(first, first + count), pa.int64()),
            pa.array([0] * count, pa.int64()),
            pa.array(["web1"] * count, pa.string()),
            pa.array(["/var/log/access.log"] * count, pa.string()),
            pa.array(ends[:-1], pa.int64()),
            pa.array(lines, pa.binary()),
            pa.nulls(count, pa.bool_()),
            pa.array([0] * count, pa.int32()),
            pa.nulls(count, pa.string()),
            pa.nulls(count, pa.int64()),
        ],
        schema=LINE_SCHEMA,
    )


def spec(**fields: Any) -> TaskSpec:
    """A task on `logs` that counts by status and minute, with `fields` changed."""
    base: dict[str, Any] = {
        "name": "sample",
        "topic": "logs",
        "period": "1m",
        "dimensions": [{"name": "status", "extract": {"delimiter": " ", "index": 8}}],
        "metrics": ["count"],
    }
    return parse_documents([base | fields])[0]


BYTES = {"delimiter": " ", "index": 9}
ALL_METRICS = ["count", "sum", "avg", "min", "max", "missing"]


def stored(found: pa.Table) -> dict[bytes, dict[bytes, bytes]]:
    """Online results as HBase has them."""
    rows = online_cells(found).to_pylist()
    return {
        row.pop("row"): {name.encode(): text.encode() for name, text in row.items() if text is not None}
        for row in rows
    }


def active(*specs: TaskSpec) -> list[ActiveTask]:
    return [ActiveTask(number, 1, each) for number, each in enumerate(specs, 1)]


def plan(*specs: TaskSpec, limits: Limits = LIMITS) -> EnginePlan:
    return EnginePlan.of(active(*specs), limits)


def by_hand(lines: Sequence[bytes], task: TaskSpec) -> dict[tuple[int, tuple[str, ...]], dict[str, float]]:
    """What the task counts, in plain Python.

    {(period start in ms, dimension values): {metric: value}}
    """
    measures: defaultdict[tuple[int, tuple[str, ...]], list[float]] = defaultdict(list)
    for raw in lines:
        text = raw.decode(errors="replace")
        found = re.search(r"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]", text, re.ASCII)
        try:
            at = datetime.strptime(found[1], "%d/%b/%Y:%H:%M:%S %z") if found else None
        except ValueError:
            at = None
        wanted = [*task.where, *task.dimensions]
        values = [_cut(text, each.extract) for each in wanted]
        passed = all(v is not None and _passes(v, e.filter) for v, e in zip(values, wanted, strict=True))
        if at is None or not passed:
            continue
        start = int(at.timestamp() * 1000) // task.span.ms * task.span.ms
        measure = _number(_cut(text, task.measure.extract)) if task.measure else math.nan
        measures[start, tuple(str(v) for v in values[len(task.where) :])].append(measure)
    return {series: _metrics(found) for series, found in measures.items()}


def _cut(text: str, extract: Any) -> str | None:
    if extract.delimiter is not None:
        fields = text.split(extract.delimiter)
        if extract.index >= len(fields):
            return None
        text = fields[extract.index]
    if extract.regex is None:
        return text
    found = re.search(extract.regex, text)
    return found[extract.capture] if found else None


def _passes(value: str, filter_: Any) -> bool:
    if filter_ is None:
        return True
    named = value in filter_.values if filter_.values else bool(re.search(filter_.regex, value))
    return named == (filter_.mode == "white")


def _number(text: str | None) -> float:
    if text is None or not re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        return math.nan
    return float(text) if abs(float(text)) <= 1e100 else math.nan


def _metrics(measures: list[float]) -> dict[str, float]:
    there = [m for m in measures if not math.isnan(m)]
    values: dict[str, float] = {"count": len(measures), "missing": len(measures) - len(there)}
    if there:
        total = math.fsum(there)
        values |= {"sum": total, "avg": total / len(there), "min": min(there), "max": max(there)}
    return values
