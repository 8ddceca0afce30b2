"""A day that cannot be computed does not keep the others from being computed."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.batch import offline

DAYS = [date(2015, 5, day) for day in (17, 18, 19)]


class ComputationThatFailsOnTheSecondDay:
    """Stands in for a batch in which one day's archive cannot be read."""

    def __init__(self, *_: Any) -> None:
        self.run_id = "r"

    def compute(self, which: Any) -> Any:
        if which.day == DAYS[1]:
            raise FileNotFoundError("no such file in HDFS")
        computed.append(which.day)
        return SimpleNamespace(day=which.day)


computed: list[date] = []


def test_the_days_after_one_that_fails_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed.clear()
    monkeypatch.setattr(offline, "_Batch", ComputationThatFailsOnTheSecondDay)
    monkeypatch.setattr(offline, "Hive", lambda settings: nullcontext())
    monkeypatch.setattr(offline, "engine", lambda settings: None)
    spark, settings = object(), object()
    with pytest.raises(offline.DaysFailed, match=r"^logs: 2015-05-18 \(FileNotFoundError: no such file"):
        offline.run(spark, settings, "logs", DAYS, "r")  # type: ignore[arg-type]
    assert computed == [DAYS[0], DAYS[2]]
