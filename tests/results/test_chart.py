"""Charts' columns hold the rows of an answer, each at its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from sluice.results import chart as charts
from sluice.results.chart import Chart, chart
from sluice.results.query import Top
from sluice.results.reader import read
from sluice.results.rows import STATES
from tests.results.questions import DAYS, FIRST, LINES, Given, query, stored, task
from tests.results.stored import DAY, Stored

HOUR = 3_600_000
METRICS = ["count", "sum", "p50"]


def drawn(layers: Stored, **fields: Any) -> tuple[Chart, list[dict[str, Any]]]:
    """A chart, and the rows that it is made of."""
    asked = query(metrics=tuple(METRICS), **fields)
    (answer,), (again,) = read(layers, asked), read(layers, asked)
    rows = again.table()
    plain = rows.drop_columns(["period"]).to_pylist()
    starts = rows.column("period").cast("int64").to_pylist()
    return chart(answer, asked, HOUR), [{**row, "period": at} for row, at in zip(plain, starts, strict=True)]


def cells(made: Chart, dimensions: list[str]) -> dict[tuple[Any, ...], list[float]]:
    """What a chart says of each series and time, without the places where it says nothing."""
    found = {}
    for series in made.series:
        for place, at in enumerate(made.times):
            values = [series.values[name][place] for name in METRICS] + [series.errors["p50"][place]]
            if not np.isnan(values).all():
                found[(int(at), *series.names, STATES[made.states[place]])] = values
    return found


@pytest.mark.slow
@given(LINES, DAYS)
def test_each_row_is_at_its_series_and_time_and_nothing_else_is_there(
    given_lines: list[Given], final: frozenset[int]
) -> None:
    layers = stored(task(METRICS), given_lines, final)
    for fields in ({}, {"dimensions": ("path",)}, {"top": Top(n=2, metric="count")}):
        made, rows = drawn(layers, **fields)
        dimensions = [name for name in ("client", "path") if name in (rows[0] if rows else {})]
        wanted = {
            (row["period"], *(row[name] for name in dimensions), row["state"]): [
                math.nan if row[name] is None else row[name] for name in [*METRICS, "p50_error"]
            ]
            for row in rows
        }
        found = cells(made, dimensions)
        assert found.keys() == wanted.keys()
        for key, values in found.items():
            assert values == pytest.approx(wanted[key], nan_ok=True), key


def test_a_gap_has_a_time_without_values_and_without_a_state() -> None:
    layers = stored(task(METRICS), [(0, 0, 0, 1), (1, 0, 0, 1), (5, 0, 0, 1)])
    made, _ = drawn(layers, dimensions=())
    assert made.times.tolist() == [FIRST, FIRST + HOUR, FIRST + 2 * HOUR, FIRST + 5 * HOUR]
    assert made.states.tolist()[2] == -1
    assert made.series[0].values["count"].tolist()[:2] == [1.0, 1.0]
    assert math.isnan(made.series[0].values["count"][2])


def test_the_largest_series_comes_first_and_that_of_all_others_last() -> None:
    lines = [(0, 0, path, 1) for path in (0, 1, 1, 2, 2, 2, 3, 3, 3, 3)] * 2
    layers = stored(task(METRICS), lines)
    made, _ = drawn(layers, dimensions=("path",), top=Top(n=2, metric="count"))
    assert [series.values["count"].tolist() for series in made.series] == [[8.0], [6.0], [6.0]]
    assert made.series[-1].names == (None,)


def test_a_chart_that_no_browser_could_draw_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "MOST_VALUES", 5)
    layers = stored(task(METRICS), [(hour, 0, 0, 1) for hour in range(2)])
    with pytest.raises(charts.TooManyValues, match="show less time"):
        drawn(layers, dimensions=())


def test_a_chart_of_nothing_is_empty() -> None:
    made, _ = drawn(stored(task(METRICS), [(0, 0, 0, 1)]), since=FIRST + 7 * DAY, until=FIRST + 8 * DAY)
    assert made.times.tolist() == []
    assert made.series == ()
