"""Files by their arrival, newest first; and what was archived since a time."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive import newest_files
from sluice.archive.newest_files import days_since, last_arrival, newest_first
from sluice.storage.tables import schema
from tests.tasks.database import sqlite

DAY = date(2026, 1, 5)


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def indexed(database: sa.Engine, first: int, arrival: int, lines: int = 1, **more: Any) -> None:
    row = {"topic": "logs", "topic_id": "id", "partition": 0, "first": first, "next": first + 10}
    row |= {"records": lines, "lines": lines, "bytes": 7, "arrival_min": arrival, "arrival_max": arrival}
    row |= {"days": {}, "unparsed": 0, "generation": 1, "path": f"{first}"} | more
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_files).values(**row))


def test_files_come_newest_first_whatever_the_size_of_a_page(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for first, arrival in ((0, 5), (10, 9), (20, 7), (30, 7)):
        indexed(database, first, arrival)
    indexed(database, 40, 99, lines=0)
    indexed(database, 0, 99, topic="shop")
    for rows in (1, 2, 100):
        monkeypatch.setattr(newest_files, "ROWS", rows)
        assert [each.path for each in newest_first(database, "logs")] == ["10", "20", "30", "0"]


def test_the_last_arrival_below_each_position_and_the_earliest_of_these(database: sa.Engine) -> None:
    indexed(database, 0, 5)
    indexed(database, 10, 9)
    indexed(database, 20, 30, lines=0)
    indexed(database, 0, 7, partition=1)
    assert last_arrival(database, "logs", [(0, 30)]) == 9
    assert last_arrival(database, "logs", [(0, 30), (1, 10)]) == 7
    assert last_arrival(database, "logs", [(0, 30), (2, 10)]) == 0


def test_the_days_that_were_archived_since(database: sa.Engine) -> None:
    indexed(database, 0, 5, days={"2026-01-04": 1})
    indexed(database, 10, 9, days={"2026-01-05": [1, 2, 3]})
    indexed(database, 20, 10, days={"2026-01-05": 1})
    assert days_since(database, "logs", 9) == {(DAY, 0): 29}
