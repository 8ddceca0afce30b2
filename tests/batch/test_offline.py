"""Days that cannot be computed, and large ones."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.batch import day_job, offline

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


@pytest.mark.parametrize(
    ("size", "partitions"),
    [(0, 4), (4, 4), (4 * day_job.PARTITION_BYTES, 4), (4 * day_job.PARTITION_BYTES + 9, 5)],
)
def test_a_large_day_has_partitions_that_are_no_larger_than_those_of_others(
    size: int, partitions: int
) -> None:
    """Half of the lines of the second file are of another day."""
    files = [SimpleNamespace(bytes=each, lines=10, days={DAYS[0].isoformat(): lines, "2015-05-30": 1})
             for each, lines in ((size // 2, 10), (size + 1, 5))]  # fmt: skip
    spark = SimpleNamespace(conf={"spark.sql.shuffle.partitions": "4"})
    assert day_job.partitions(spark, files, DAYS[0]) == partitions  # type: ignore[arg-type]
