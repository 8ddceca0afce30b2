"""Which published ranges reach into a stretch of time; that readers get them is tested with `results`."""

from __future__ import annotations

from datetime import date
from random import Random

import pytest
import sqlalchemy as sa

from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.finals import Finals
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database

pytestmark = pytest.mark.slow

DAY = date(2024, 5, 1)


def test_sides_have_the_ranges_that_reach_into_the_time_however_many_came_before() -> None:
    chance = Random(7)  # noqa: S311 - not secret
    at, ranges = 0, list[tuple[int, int]]()
    for _ in range(60):
        first = at + chance.choice([0, 0, 3])
        at = first + chance.randrange(1, 9)
        ranges.append((first, at))
    with server("finals") as settings, database(settings, "bench_finals") as own:
        with engine(own).begin() as connection:
            for version in (1, 2):
                for first, until in ranges[version - 1 :]:
                    row = {"task_id": 1, "version": version, "first": first, "until": until, "topic": "logs"}
                    row |= {"first_day": DAY, "last_day": DAY, "run_id": "r", "blocks": []}
                    connection.execute(sa.insert(schema.final_ranges).values(**row))
        finals = Finals(engine(own), "logs")
        for _ in range(150):
            since = chance.randrange(-2, at + 3)
            until = since + chance.randrange(1, 40)
            found = finals.sides((1, 1), since, until).final
            wanted = [(first, end) for first, end in ranges if first < until and end > since]
            assert [(each.first, each.until) for each in found] == wanted, (since, until)
