"""A night reads the versions that can have counted lines of its day, however many there ever were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from sluice.archive.index import IndexedFile
from sluice.batch.task_versions import CLOCKS_APART, first_arrival, ranges_of, task_versions
from sluice.engine.plan import Range
from sluice.storage.tables import schema
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.tasks.database import sqlite

TOPIC = "logs"
DAY = datetime(2026, 1, 5, tzinfo=UTC)
#: Seven commits, one a day, of ten positions each.
COMMITS = 7


@pytest.fixture
def database() -> sa.Engine:
    """Four versions of a task: two are over, one paused and counts again, one counts."""
    made = sqlite()
    store = TaskStore(made)
    for period in ("1m", "5m", "1h", "1d"):
        store.apply([spec(name="hits", period=period)], "ann")
    ranges = [(1, 1, 3), (2, 3, 5), (3, 1, 2), (3, 6, None), (4, 5, None)]
    with made.begin() as connection:
        for seq in range(1, COMMITS + 1):
            row = {"topic": TOPIC, "seq": seq, "token": "t", "committed_at": DAY + timedelta(days=seq)}
            row |= {"start": {"0": seq * 10 - 10}, "end": {"0": seq * 10}, "tasks": [], "counts": {}}
            connection.execute(sa.insert(schema.commits).values(row))
        for version, first, end in ranges:
            own = {"topic": TOPIC, "task_id": 1, "version": version, "first_seq": first, "end_seq": end}
            own |= {"start": {"0": first * 10 - 10}} | ({"end": {"0": end * 10 - 10}} if end else {})
            connection.execute(sa.insert(schema.task_ranges).values(own))
    return made


def versions(database: sa.Engine, since: datetime | None, *also: int) -> list[int]:
    found = task_versions(database, TOPIC, since=since, also=[(1, number) for number in also])
    assert sorted(found.ranges) == [(task.task_id, task.version) for task in found.tasks]
    return [task.version for task in found.tasks]


def test_versions_that_were_over_before_are_left_out(database: sa.Engine) -> None:
    assert versions(database, None) == [1, 2, 3, 4]
    assert versions(database, DAY) == [1, 2, 3, 4]  # nothing was committed before then
    assert versions(database, DAY + timedelta(days=3, hours=1)) == [
        2,
        3,
        4,
    ]  # commit 3 began without the first
    assert versions(database, DAY + timedelta(days=5, hours=1)) == [3, 4]
    assert versions(database, DAY + timedelta(days=5, hours=1), 1) == [1, 3, 4]


def test_one_that_counts_has_all_of_its_ranges(database: sa.Engine) -> None:
    found = task_versions(database, TOPIC, since=DAY + timedelta(days=9)).ranges
    assert found[1, 3] == [Range.of({"0": 0}, {"0": 10}), Range.of({"0": 50})]
    assert ranges_of(database, TOPIC, [(1, 1)]) == {(1, 1): [Range.of({"0": 0}, {"0": 20})]}
    assert ranges_of(database, TOPIC, []) == {}


def test_the_first_arrival_is_that_of_all_files_and_clocks_may_differ() -> None:
    files = [
        IndexedFile(TOPIC, "id", 0, n, n + 1, 1, 1, 9, {}, 0, "/raw", round(at.timestamp() * 1000), 0)
        for n, at in enumerate((DAY + timedelta(days=1), DAY, DAY + timedelta(days=2)))
    ]
    assert first_arrival(files) == DAY - CLOCKS_APART
    assert abs(first_arrival([]) + CLOCKS_APART - datetime.now(UTC)) < timedelta(minutes=1)
