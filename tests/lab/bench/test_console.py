"""The bench `console`: its arithmetic, and what it asks for."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

import tests.plugins.conftest  # noqa: F401 - Airflow without daemons
from sluice_lab.bench import console, console_pages, serving
from sluice_lab.bench.console import ConsoleFigures


def test_the_bars_are_on_what_is_slow_and_on_what_the_charts_add() -> None:
    found = ConsoleFigures(
        first=[(0.2, 150.0)] * 96 + [(1.5, 190.0)] * 4,
        previews=[0.5] * 90 + [1.2] * 10,
        requests={"one": [0.1] * 50, "other": [0.3] * 48 + [0.9] * 2},
        widest=[1.0],
        paints={"key": [0.016, 0.04], "click": [0.12]},
        live={"at rest": {"Airflow": 0.04, "PostgreSQL": 0.01}, "a commit a second": {"Airflow": 0.5}},
        answers={"at rest": 1.8, "a commit a second": 33.0},
    )
    shown = console.outcome(found, "", quick=True)
    assert [bar.figure for bar in shown.bars] == pytest.approx([0.2, 190.0, 1.2, 0.3, 0.12, 0.05, 0.5])
    assert [bar.holds for bar in shown.bars] == [True, True, False, True, False, True, False]
    assert shown.tables[1].rows == [
        ["Airflow", 0.04, 0.5],
        ["PostgreSQL", 0.01, 0.0],
        ["answers to the charts, a second", 1.8, 33.0],
    ]


def test_the_questions_differ_and_are_what_a_chart_may_be_asked_for() -> None:
    from sluice_airflow.console.chart_in import MOST_SERIES, ChartIn

    asked = [*console_pages.questions("curves").values(), console_pages.widest("curves")]
    assert len(set(asked)) == len(asked) == 9
    for query in asked:
        many = {"metric", "split", "where"}
        found = {name: got if name in many else got[0] for name, got in parse_qs(query).items()}
        assert ChartIn.model_validate(found).task == "curves"
    widest = parse_qs(asked[-1])
    assert int(widest["top"][0]) == serving.SERIES <= MOST_SERIES
    minutes = (int(widest["until"][0]) - int(widest["since"][0])) // serving.MINUTE_MS
    assert minutes == serving.POINTS
