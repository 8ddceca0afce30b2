"""Questions in the background: one that hangs holds up nobody, and is not asked a second time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from sluice.monitoring.flow.asks import Asks, Question
from sluice_lab.waiting import until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging question waits for."""
    event = threading.Event()
    yield event
    event.set()


def test_answers_are_shared_while_they_are_fresh() -> None:
    asked: list[int] = []
    question = {"a": Question(lambda: asked.append(1) or len(asked), fresh=60.0)}  # type: ignore[func-returns-value]
    asks = Asks()
    assert [asks.look(question, 30.0)["a"].value for _ in range(3)] == [1, 1, 1]


def test_an_old_answer_is_asked_for_again() -> None:
    asked: list[int] = []
    question = {"a": Question(lambda: asked.append(1) or len(asked), fresh=0.0)}  # type: ignore[func-returns-value]
    asks = Asks()
    assert [asks.look(question, 30.0)["a"].value for _ in range(3)] == [1, 2, 3]


def test_a_question_that_hangs_holds_up_nobody_and_does_not_pile_up(gate: threading.Event) -> None:
    begun: list[int] = []

    def hangs() -> str:
        begun.append(1)
        gate.wait()
        return "late"

    questions = {"hangs": Question(hangs, 0.0), "answers": Question(lambda: "now", 0.0)}
    asks = Asks()
    for _ in range(3):
        said = asks.look(questions, 0.05)
        assert said["hangs"].value is None
        assert said["hangs"].waiting > 0
    until(lambda: asks.look(questions, 0.05)["answers"].value == "now", poll=0.0)
    assert begun == [1]
    gate.set()
    assert asks.look({"hangs": Question(lambda: "again", 3600.0)}, 30.0)["hangs"].value == "late"


def test_an_error_is_said_and_the_answer_before_it_stays() -> None:
    answers = iter(["good"])
    question = {"a": Question(lambda: next(answers), 0.0)}
    asks = Asks()
    assert asks.look(question, 30.0)["a"].recent == "good"
    said = asks.look(question, 30.0)["a"]
    assert (said.value, said.recent, said.error) == ("good", None, "StopIteration")
