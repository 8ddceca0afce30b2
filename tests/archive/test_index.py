"""What the index's entry of a day says: lines, and when they happened."""

from __future__ import annotations

from datetime import date

import pytest
import sqlalchemy as sa

from sluice.archive.index import _has, _lines, coverage
from sluice.runtime.positions import position_at
from sluice.storage.tables import schema
from tests.tasks.database import sqlite


@pytest.mark.parametrize(
    ("said", "since", "until", "has"),
    [
        ([9, 100, 200, 500, 500], 0, 100, False),
        ([9, 100, 200, 500, 500], 0, 101, True),
        ([9, 100, 200, 500, 500], 200, 300, True),
        ([9, 100, 200, 500, 500], 201, 500, False),
        ([9, 100, 200, 500, 500], 300, 501, True),
        ([9, 100, 200, 500, 500], 501, 900, False),
        (9, 300, 400, True),  # of an older file
    ],
)
def test_a_file_is_read_if_a_stretch_of_its_lines_reaches_into_the_period(
    said: int | list[int], since: int, until: int, has: bool
) -> None:
    assert _has(said, since, until) == has
    assert _lines(said) == 9


def test_nothing_is_expected_between_the_chains_of_a_topic_that_was_made_again() -> None:
    database = sqlite()
    row = {"topic": "logs", "partition": 0, "lines": 9, "bytes": 1, "arrival_min": 1, "arrival_max": 1}
    row |= {"unparsed": 0, "generation": 1, "path": "p"}
    begin, end = position_at(1, 50), position_at(1, 90)  # retention took what came before
    with database.begin() as connection:
        for topic_id, first, following in (("old", 100, 200), ("new", begin, end)):
            own = {"topic_id": topic_id, "first": first, "next": following, "records": following - first}
            connection.execute(sa.insert(schema.archive_files).values(**row, **own, days={"2024-05-01": 9}))
    found = coverage(database, "logs", date(2024, 5, 1), {"0": end})
    assert (found.expected, found.offsets, found.lines) == (140, 140, 18)
