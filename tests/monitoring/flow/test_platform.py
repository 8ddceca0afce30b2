"""The shared picture: one look at a time, and nobody waits for somebody else's."""

from __future__ import annotations

import threading

import pytest

from sluice.monitoring.flow import platform as module
from sluice.monitoring.flow.platform import Pictures
from sluice.monitoring.flow.seen import FlowAnswers
from tests.monitoring.flow.made import seen


def test_those_who_ask_at_the_same_time_get_the_same_picture() -> None:
    looks: list[int] = []

    def look() -> FlowAnswers:
        looks.append(1)
        return seen()

    shared = Pictures(look)
    assert shared.picture() is shared.picture()
    assert looks == [1]


def test_while_somebody_looks_the_others_get_the_picture_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH", 0.0)
    gate, looking = threading.Event(), threading.Event()
    hang = False

    def look() -> FlowAnswers:
        if hang:
            looking.set()
            gate.wait()
        return seen()

    shared = Pictures(look)
    before, hang = shared.picture(), True
    slow = threading.Thread(target=shared.picture)
    slow.start()
    assert looking.wait(30)
    assert shared.picture() is before
    gate.set()
    slow.join(30)
    hang = False
    assert shared.picture() is not before
