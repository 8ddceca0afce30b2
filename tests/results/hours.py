"""A task that counts clients by the hour, in the stores."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from sluice.results.layers import StoredLayers
from sluice.results.query import Query
from sluice.results.reader import read
from sluice.runtime.settings import Settings
from sluice.storage.tables.finals import FinalRange
from tests.engine.samples import line
from tests.results.counting import Counting

DAY = date(2015, 5, 17)
BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
FIRST = int(BEGIN.timestamp()) * 1000
DAY_MS = 86_400_000
HOURS = 48


class Hours(Counting):
    """One task, which counts clients by the hour."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.partials = self.counted(
            [line(client=f"c{n}", at=BEGIN + timedelta(hours=h)) for h in range(HOURS) for n in range(3)]
        )

    def publish(self, day: date = DAY) -> tuple[FinalRange, ...]:
        return super().publish(day)

    def read(self, layers: StoredLayers | None = None) -> tuple[list[tuple[int, str, int]], dict[int, str]]:
        """Every row, and the state of each period."""
        (answer,) = read(layers or StoredLayers(self.settings), Query(tasks=(self.task.spec.name,)))
        rows = [
            (round(row["period"].timestamp() * 1000), row["client"], row["count"])
            for row in answer.table().to_pylist()
        ]
        return rows, {row["period_start"]: row["state"] for row in answer.periods.to_pylist()}


@pytest.fixture
def counting(stack: Settings) -> Iterator[Hours]:
    made = Hours(stack)
    yield made
    made.forget()


def direct(lines_each: int = 1) -> list[tuple[int, str, int]]:
    return [(FIRST + h * 3_600_000, f"c{n}", lines_each) for h in range(HOURS) for n in range(3)]
