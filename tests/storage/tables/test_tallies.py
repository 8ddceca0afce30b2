"""What became of the lines with a time, in the transactional tables."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.storage.tables import schema, tallies
from sluice.storage.tables.tallies import OFFLINE, ONLINE, TOPIC, Tally, TallyLayer
from tests.tasks.database import sqlite

DAY, NEXT = date(2015, 5, 17), date(2015, 5, 18)


def row(version: tuple[int, int], *numbers: int, day: date = DAY) -> dict[str, Any]:
    named = dict(zip(("counted", "filtered", "unmatched", "too_long"), numbers, strict=True))
    return {"day": day, "task_id": version[0], "version": version[1], **named}


def sample(version: tuple[int, int], offset: int, kind: str = "unmatched") -> dict[str, Any]:
    place = {"day": DAY, "task_id": version[0], "version": version[1], "kind": kind, "partition": 0}
    return {**place, "offset": offset, "line_in_record": 0, "reason": "why", "bytes": 3, "line": b"a\0b"}


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def lines(database: sa.Engine, count: int) -> None:
    with database.begin() as connection:
        values = {"topic": "logs", "day": DAY, "partition": 0, "lines": count, "last_offset": 9}
        connection.execute(sa.insert(schema.event_days).values(**values))


def test_batches_add_up_and_a_day_that_is_computed_again_does_not(database: sa.Engine) -> None:
    for _ in range(2):
        with database.begin() as connection:
            tallies.add(connection, "logs", [row(TOPIC, 8, 0, 1, 0), row((1, 1), 5, 2, 1, 1)])
            where = ("logs", TallyLayer.OFFLINE, DAY)
            tallies.replace(connection, where, [row((1, 1), 10, 4, 2, 2)], [sample((1, 1), 3)])
    assert tallies.of_day(database, "logs", DAY, ONLINE) == {
        TOPIC: Tally(16, 0, 2, 0),
        (1, 1): Tally(10, 4, 2, 2),
    }
    assert tallies.of_day(database, "logs", DAY, OFFLINE) == {(1, 1): Tally(10, 4, 2, 2)}
    assert tallies.of_day(database, "logs", NEXT, ONLINE) == {}
    assert (Tally(10, 4, 2, 2).lines, Tally(10, 4, 2, 2).skipped) == (18, 4)


def test_a_backfill_replaces_its_own_version_alone_and_counts_with_the_speed_layer(
    database: sa.Engine,
) -> None:
    with database.begin() as connection:
        tallies.add(connection, "logs", [row((1, 1), 1, 0, 0, 0)])
        for number in (3, 7):
            for version in ((1, 1), (2, 1)):
                filled = [row(version, number, 0, 0, 0)]
                tallies.replace(connection, ("logs", TallyLayer.FILLED, DAY), filled, [], version=version)
    assert tallies.of_day(database, "logs", DAY, ONLINE) == {(1, 1): Tally(8), (2, 1): Tally(7)}
    assert tallies.of_version(database, "logs", (1, 1)) == {DAY: Tally(8)}


def test_a_day_is_known_only_if_each_of_its_lines_was_tallied(database: sa.Engine) -> None:
    lines(database, 9)
    assert not tallies.known(database, "logs", DAY, TallyLayer.ONLINE)
    with database.begin() as connection:
        tallies.add(connection, "logs", [row(TOPIC, 4, 0, 1, 0)])
        assert tallies.unknown_lines(connection, "logs") == 4  # an earlier release counted them
    assert not tallies.known(database, "logs", DAY, TallyLayer.ONLINE)
    with database.begin() as connection:
        tallies.add(connection, "logs", [row(TOPIC, 4, 0, 0, 0)])
        assert tallies.unknown_lines(connection, "logs") == 0
    assert tallies.known(database, "logs", DAY, TallyLayer.ONLINE)
    assert tallies.known(database, "logs", NEXT, TallyLayer.ONLINE)  # a day without lines


def test_samples_are_found_by_version_and_forgotten_with_their_day(database: sa.Engine) -> None:
    with database.begin() as connection:
        some = [sample((1, 1), 3), sample((1, 1), 4, "too_long"), sample((2, 1), 5)]
        for _ in range(2):
            tallies.add_samples(connection, "logs", some)
        assert tallies.sampled(connection, "logs") == {
            (1, 1, "unmatched", DAY): 1,
            (1, 1, "too_long", DAY): 1,
            (2, 1, "unmatched", DAY): 1,
        }
    found = tallies.samples(database, "logs", (1, 1))
    assert [(each.kind, each.offset, each.text) for each in found] == [
        ("too_long", 4, "a\ufffdb"),
        ("unmatched", 3, "a\ufffdb"),
    ]
    with database.begin() as connection:
        tallies.forget(connection, "logs", [DAY])
    assert tallies.samples(database, "logs", (1, 1)) == []
