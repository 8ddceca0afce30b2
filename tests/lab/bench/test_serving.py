"""The bench `serving`: its arithmetic, its questions, and who asks them."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from sluice.results.filters import passing
from sluice.results.query import Query
from sluice_lab.bench import serving
from sluice_lab.bench.serving import Csv, Mix, ServingFigures


def test_the_different_questions_differ_and_each_has_a_hundred_series_of_all_points() -> None:
    asked = serving.questions("curves")
    assert len({query.model_dump_json() for query in asked}) == len(asked) == serving.CLIENTS
    for query in asked:
        assert query.since is not None
        assert query.until is not None
        assert query.until - query.since == serving.POINTS * serving.MINUTE_MS
        assert query.until <= serving.FIRST + serving.CURVE_DAYS * serving.DAY_MS
        paths = pa.array(serving.all_paths())
        for where in query.where:
            paths = paths.filter(passing(paths, where))
        assert len(paths) >= serving.SERIES
    assert len({query.metrics for query in asked}) == 4
    assert {len(query.where) for query in asked} == {0, 1}


def test_every_client_asks_its_own_question_and_a_few_threads_answer() -> None:
    asked = serving.questions("curves")
    names: set[str] = set()
    answered: list[str] = []

    def answer(query: Query) -> int:
        names.add(threading.current_thread().name)
        answered.append(query.model_dump_json())
        time.sleep(0.001)
        return 1

    found = serving.mix(answer, asked, 3)
    assert sorted(answered) == sorted([query.model_dump_json() for query in asked] * 3)
    assert len(found.took) == 3 * serving.CLIENTS
    assert min(found.took) >= 0.001
    assert found.elapsed >= max(found.took)
    assert len(names) <= serving.THREADS


def test_an_answer_that_fails_fails_the_bench() -> None:
    def answer(query: Query) -> int:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        serving.mix(answer, serving.questions("curves"), 1)


def test_the_bars_are_on_medians_of_days_and_on_the_late_answers_to_different_questions() -> None:
    quick, slow = Mix([0.1] * 96 + [0.6] * 4, 10.0, 1.0), Mix([0.1] * 90 + [0.6] * 10, 10.0, 1.0)
    found = ServingFigures(
        days={
            "kept": {"many": [0.011, 0.012, 9.0], "one": [0.010, 0.010, 0.010]},
            "read": {"many": [0.013] * 3, "one": [0.010] * 3},
        },
        mixes={
            "different questions": quick,
            "equal questions": slow,
            "different questions, a commit a second": slow,
        },
        csv=Csv(1_000_000, [4.0, 2.0, 3.0], 12.0),
        scrapes=[0.01] * 99 + [9.0],
    )
    shown = serving.outcome(found, "", quick=True)
    assert [bar.holds for bar in shown.bars] == [True, False, True, False, True, True, True]
    assert [bar.figure for bar in shown.bars] == pytest.approx([1.2, 1.3, 0.1, 0.6, 1e6 / 3, 12.0, 0.01])
    assert [row[:2] for row in shown.tables[0].rows] == [[name, 100] for name in found.mixes]


def test_something_is_done_again_and_again_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "COMMIT_SECONDS", 0.01)
    beats: list[float] = []
    with serving.repeating(lambda: beats.append(time.monotonic())):
        time.sleep(0.2)
    number = len(beats)
    assert number > 2
    time.sleep(0.05)
    assert len(beats) == number


def test_one_answer_in_twenty_may_be_late() -> None:
    assert serving.p95([0.1] * 94 + [0.6] * 6) == 0.6
    assert serving.p95([0.1] * 96 + [0.6] * 4) == 0.1
