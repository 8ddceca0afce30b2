"""The search for lines as a double over lines in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sluice.lines.answer import LinesAnswer
from sluice.lines.query import LinesQuery
from sluice_lab.waiting import SECONDS
from tests.engine.samples import BYTES, active, line, spec
from tests.lines.made import MadeSources, answer
from tests.lines.test_answer import BEGIN, EVERYTHING, one

TASK = spec(measure=BYTES, metrics=["count", "missing", "sum"])
LINES = [line(at=BEGIN + timedelta(seconds=n), path=f"/{n}") for n in range(25)]
PERIOD = "2015-05-17T10:05:00Z"


class Search:
    """A double of `find`: what was asked, and the lines that it finds."""

    def __init__(self) -> None:
        self.asked: list[tuple[LinesQuery, int | None]] = []
        self.lines = LINES
        self.error: Exception | None = None
        self.held: threading.Event | None = None

    def __call__(self, settings: Any, query: LinesQuery, **options: Any) -> LinesAnswer:
        self.asked.append((query, options["commit"]))
        if self.held is not None:
            assert self.held.wait(SECONDS)
        if self.error is not None:
            raise self.error
        query.check(active(TASK)[0])
        sources = MadeSources([[one(n, text) for n, text in enumerate(self.lines)]])
        return answer(TASK, query, sources, below=EVERYTHING, counted=len(self.lines))


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[Search]:
    from sluice_airflow.api import lines, security

    double = Search()
    monkeypatch.setattr(lines, "find", double)
    monkeypatch.setattr(lines, "StoredLayers", lambda _: None)
    monkeypatch.setattr(lines, "SEARCHES", lines.Searches())
    monkeypatch.setattr(security.RATE, "take", lambda _: 0)
    yield double
    if double.held is not None:
        double.held.set()
