"""A task, made-up lines in its first three days, and questions about what was counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from sluice.results.query import Query
from sluice.results.reader import read
from sluice.state.series import in_order, series_schema
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import ALL_METRICS, BYTES, active, line, spec
from tests.results.stored import DAY, Forgetful, Stored, series_of

BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
FIRST = int(BEGIN.timestamp()) * 1000
DAY_NUMBER = FIRST // DAY
DIMENSIONS = [
    {"name": "client", "extract": {"delimiter": " ", "index": 0}},
    {"name": "path", "extract": {"delimiter": " ", "index": 6}},
]
SKETCHED = [*ALL_METRICS, "stddev", "unique", "p50", "top3"]
PATHS = ("/", "/a_b", "/a%5F", "/img/x.png", "/img/y.gif")
#: A line: hours since the first day, client, path, size.
Given = tuple[int, int, int, int]
LINES = st.lists(
    st.tuples(st.integers(0, 71), st.integers(0, 4), st.integers(0, len(PATHS) - 1), st.integers(-1, 9)),
    max_size=40,
)
DAYS = st.frozensets(st.integers(DAY_NUMBER, DAY_NUMBER + 2))


def task(metrics: Sequence[str] = ALL_METRICS, period: str = "1h", **more: Any) -> ActiveTask:
    return active(spec(period=period, dimensions=DIMENSIONS, measure=BYTES, metrics=metrics, **more))[0]


def texts(given: Sequence[Given]) -> list[bytes]:
    return [
        line(
            client=f"c{client}",
            at=BEGIN + timedelta(hours=hour),
            path=PATHS[path],
            size="-" if size < 0 else str(size),
        )
        for hour, client, path, size in given
    ]


def stored(of: ActiveTask, given: Sequence[Given], final: frozenset[int] = frozenset()) -> Stored:
    return Stored(of, series_of(of, texts(given)), final)


def query(**fields: Any) -> Query:
    return Query(tasks=("sample",), **fields)


def ask(layers: Stored, **fields: Any) -> list[dict[str, Any]]:
    """The rows, which are the same where values are kept, and where nothing is."""
    rows: list[dict[str, Any]] = read(layers, query(**fields))[0].table().to_pylist()
    again, forgetful = (read(each, query(**fields))[0] for each in (layers, Forgetful(layers)))
    for other in (again, forgetful):
        found = other.table().to_pylist()
        assert found == rows or ([*map(exact, found)], inexact(found)) == (
            [*map(exact, rows)],
            pytest.approx(inexact(rows), rel=1e-12),
        )
    assert again.periods == forgetful.periods
    return rows


def exact(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not isinstance(value, float)}


def inexact(rows: Sequence[dict[str, Any]]) -> list[float]:
    """The numbers whose last digit depends on the order in which pieces are merged."""
    return [value for row in rows for value in row.values() if isinstance(value, float)]


def a_million() -> Stored:
    """A million results of a task with one metric, 100 series by 10,000 minutes, all published."""
    of = active(spec(period="1m", dimensions=DIMENSIONS[:1]))[0]
    series, minutes = 100, 10_000
    rows = pa.table(
        {
            "period_start": pa.array(FIRST + np.repeat(np.arange(minutes), series) * 60_000),
            "d0": pa.array([f"client-{n:03d}" for n in range(series)] * minutes).dictionary_encode(),
            "lines": pa.array(np.arange(series * minutes)),
        },
        schema=series_schema(of),
    )
    assert in_order(rows).equals(rows)
    days = frozenset(range(DAY_NUMBER, DAY_NUMBER + 7))
    return Stored(of, rows, days, block_bytes=1 << 20)
