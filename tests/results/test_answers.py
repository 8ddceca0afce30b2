"""The same question is answered once, until what it is answered from changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from sluice.results import answers
from sluice.results.answers import Answers
from sluice.results.reader import ResultsAnswer, read
from sluice.storage.tables.finals import Sides
from tests.results.questions import DAY_NUMBER, query, stored, task
from tests.results.stored import COMMIT, DAY, Stored

pytestmark = pytest.mark.slow

LINES = [(hour, client, 0, 1) for hour in range(72) for client in range(5)]


@pytest.fixture
def layers() -> Stored:
    return stored(task(), LINES, frozenset(range(DAY_NUMBER, DAY_NUMBER + 2)))


def by_day(layers: Stored, **more: Any) -> ResultsAnswer:
    return read(layers, query(dimensions=[], period="1d", **more))[0]


def test_equal_questions_read_the_blocks_once(layers: Stored) -> None:
    first = by_day(layers)
    rows, read_once = first.table(), layers.read_blocks
    again = by_day(layers)
    assert again.table() == rows
    assert again.periods == first.periods
    assert layers.read_blocks == read_once > 0
    assert by_day(layers, limit=1).table() == rows.slice(0, 1)  # a page of the same answer
    assert layers.read_blocks == read_once


@pytest.mark.parametrize(
    "change",
    [
        lambda layers: setattr(layers, "superseded", frozenset([DAY_NUMBER])),
        lambda layers: setattr(layers, "final_days", frozenset([DAY_NUMBER])),
        lambda layers: setattr(layers, "head", COMMIT + 1),
    ],
    ids=["superseded", "published", "commit"],
)
def test_nothing_is_kept_beyond_a_change_of_what_it_was_read_from(layers: Stored, change: Any) -> None:
    by_day(layers).table()
    before = layers.read_blocks
    change(layers)
    by_day(layers).table()
    assert layers.read_blocks > before


@pytest.mark.parametrize(
    "other",
    [{"since": DAY_NUMBER * DAY}, {"metrics": ["count"]}, {"where": [{"dimension": "path", "prefix": "/"}]}],
)
def test_another_question_is_another_answer(layers: Stored, other: dict[str, Any]) -> None:
    by_day(layers).table()
    before = layers.read_blocks
    by_day(layers, **other).table()
    assert layers.read_blocks > before


def test_an_answer_that_is_too_large_is_streamed_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [pa.record_batch({"n": pa.array([n] * 10)}) for n in range(5)]
    monkeypatch.setattr(answers, "ANSWER_BYTES", 100)
    shared = Answers()
    drawn: list[int] = []

    def made() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            drawn.append(number)
            yield batch

    for _ in range(2):
        drawn.clear()
        given = shared.of("key", made(), [])
        assert next(given) == batches[0]
        assert len(drawn) <= 2  # no more than what is too large
        assert list(given) == batches[1:]


def test_threads_that_ask_the_same_share_one_answer() -> None:
    batch, shared, made = pa.record_batch({"n": pa.array([1])}), Answers(), list[int]()
    go, found = threading.Event(), list[list[pa.RecordBatch]]()

    def slow() -> Iterator[pa.RecordBatch]:
        made.append(1)
        go.wait(5)
        yield batch

    threads = [
        threading.Thread(target=lambda: found.append(list(shared.of("key", slow(), [])))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(5)
    assert found == [[batch]] * 4
    assert len(made) == 1


def test_the_key_tells_apart_everything_that_an_answer_is_read_from() -> None:
    sides = Sides((), frozenset(), (1,), {}, {}, head=3)
    other = Sides((), frozenset(), (1,), {}, {}, head=4)
    keys = {answers.key_of(task(), query(dimensions=[]), each) for each in (sides, sides, other)}
    assert len(keys) == 2
