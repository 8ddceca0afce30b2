"""The set-aside list: what goes on it, who is told, and how a row begins again; on SQLite."""

from __future__ import annotations

from datetime import date

import pytest
import sqlalchemy as sa

from sluice.storage.tables import alerts, recounts, schema
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.recounts import BlockDamage, Recounts
from tests.storage.booked import database

__all__ = ["database"]  # a fixture

HOUR = 3_600_000


def period(hour: int, seq: int = 5, since: int = 1) -> StatePeriod:
    return StatePeriod(1, 1, hour * HOUR, 1, since, seq, 100)


def damage(of: StatePeriod | BackfillPointer) -> BlockDamage:
    key = (of.task_id, of.version, of.period_start)
    return BlockDamage(key, f"block of {of.period_start // HOUR} o'clock is not in HBase", of)


@pytest.fixture
def listed(database: sa.Engine) -> Recounts:
    with database.begin() as connection:
        for hour in range(4):
            row = {"topic": "logs", **vars(period(hour))}
            connection.execute(sa.insert(schema.state_periods).values(**row))
    return Recounts(database, "logs", patience=0)


def with_state(database: sa.Engine) -> list[int]:
    with database.connect() as connection:
        starts = connection.scalars(sa.select(schema.state_periods.c.period_start)).all()
    return sorted(start // HOUR for start in starts)


def told(database: sa.Engine) -> list[str]:
    return [each.message for each in alerts.open_alerts(database, recounts.ALERTS)]


def test_a_damaged_period_has_no_state_any_more_and_an_alert_names_it(listed: Recounts) -> None:
    assert listed.set_aside([damage(period(1))]) == {(1, 1, HOUR)}
    assert with_state(listed.engine) == [0, 2, 3]
    assert listed.of([(1, 1, 0), (1, 1, HOUR)]) == {(1, 1, HOUR)}
    assert listed.waiting() == {(1, 1, HOUR)}
    (message,) = told(listed.engine)
    assert "(1v1), the period from 1970-01-01T01:00:00Z: block of 1 o'clock is not in HBase" in message
    assert "being counted again from the archive" in message


def test_several_periods_of_a_version_have_one_alert(listed: Recounts) -> None:
    listed.set_aside([damage(period(hour)) for hour in range(4)])
    (message,) = told(listed.engine)
    assert "4 periods from 1970-01-01T00:00:00Z to 1970-01-01T03:00:00Z" in message


@pytest.mark.parametrize("changed", [period(1, seq=6), period(1, since=2), period(9)])
def test_what_changed_since_it_was_read_is_not_set_aside(listed: Recounts, changed: StatePeriod) -> None:
    """Another writer replaced the block, or retention dropped it: nothing is lost."""
    assert listed.set_aside([damage(changed)]) == set()
    assert with_state(listed.engine) == [0, 1, 2, 3]
    assert told(listed.engine) == []


def test_a_block_of_a_backfill_is_set_aside_while_its_pointer_stands(listed: Recounts) -> None:
    day = date(1970, 1, 1)
    pointer = BackfillPointer("b1v1/1970-01-01/3600000/1/0", 1, 1, day, HOUR, 1, 0, "s:1", 9)
    assert listed.set_aside([damage(pointer)]) == set()
    with listed.engine.begin() as connection:
        connection.execute(sa.insert(schema.backfill_blocks).values(topic="logs", **vars(pointer)))
    before = Backfills(listed.engine).revision("logs")
    assert listed.set_aside([damage(pointer)]) == {(1, 1, HOUR)}
    assert with_state(listed.engine) == [0, 2, 3]
    assert Backfills(listed.engine).revision("logs") == before + 1


def test_a_period_that_is_damaged_again_begins_again(listed: Recounts) -> None:
    listed.set_aside([damage(period(1))])
    with listed.engine.begin() as connection:
        connection.execute(sa.update(schema.recounts).values(rebuild_id=7, switched=True))
        connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(period(1, 9, 8))))
    assert listed.of([(1, 1, HOUR)]) == set()
    assert listed.unsettled() == {(1, 1)}
    listed.set_aside([damage(period(1, 9, 8))])
    (row,) = listed.all()
    assert (row.rebuild_id, row.switched) == (None, False)


def test_readers_are_told_the_starts_within_their_time(listed: Recounts) -> None:
    listed.set_aside([damage(period(hour)) for hour in (0, 1, 3)])
    with listed.engine.connect() as connection:
        gaps = [(0, HOUR), (3 * HOUR, 9 * HOUR)]
        assert recounts.starts(connection, "logs", (1, 1), gaps) == {0, 3 * HOUR}
        assert recounts.starts(connection, "logs", (1, 2), gaps) == set()
        assert recounts.starts(connection, "logs", (1, 1), []) == set()


def test_a_day_with_such_a_period_is_not_compared(listed: Recounts) -> None:
    listed.set_aside([damage(period(1))])
    assert listed.touch(0, 2 * HOUR, HOUR)
    assert listed.touch(2 * HOUR, 9 * HOUR, HOUR)
    assert not listed.touch(2 * HOUR + 1, 9 * HOUR, HOUR)


def test_a_period_that_is_never_counted_again_holds_up_only_the_day_in_which_it_begins(
    listed: Recounts,
) -> None:
    listed.set_aside([damage(period(1)), damage(period(2))])
    listed.expire([(1, 1, HOUR), (1, 1, 9 * HOUR)])
    assert (listed.expired(), listed.waiting()) == ({(1, 1, HOUR)}, {(1, 1, 2 * HOUR)})
    assert listed.of([(1, 1, HOUR)]) == {(1, 1, HOUR)}  # nobody reads it
    assert listed.touch(0, 2 * HOUR, HOUR)
    assert not listed.touch(HOUR + 1, 2 * HOUR, HOUR)
    again, expired = sorted(told(listed.engine), key=lambda each: "cannot" in each)
    assert "It is being counted again from the archive" in again
    assert "block of 1 o'clock is not in HBase" in expired
    assert "cannot be counted again, because retention deleted lines of it from the archive" in expired
    listed.forget([(1, 1, HOUR), (1, 1, 2 * HOUR)])
    assert told(listed.engine) == []


def test_what_retention_dropped_leaves_the_list_and_its_alert_ends(listed: Recounts) -> None:
    listed.set_aside([damage(period(1))])
    listed.forget([(1, 1, HOUR)])
    assert listed.all() == []
    assert told(listed.engine) == []


def test_what_is_damaged_is_listed_by_task_with_what_becomes_of_it(listed: Recounts) -> None:
    listed.set_aside([damage(period(hour)) for hour in range(3)])
    listed.expire([(1, 1, HOUR)])
    with listed.engine.begin() as connection:
        asked = [{**recounts.row_of("logs", (1, 1, 3 * HOUR)), "rebuild_id": 7}]
        recounts.put(connection, asked, {"rebuild_id": 7})
        own = sa.update(schema.recounts).where(schema.recounts.c.period_start == 2 * HOUR)
        connection.execute(own.values(rebuild_id=7))
    found = listed.damaged(10)
    assert [(each.period_start // HOUR, each.standing.partition(":")[0]) for each in found] == [
        (0, "waits for a rebuild"),
        (1, "cannot be counted again"),
        (2, "rebuild 7"),
    ]
    assert listed.damaged(2, task_id=1) == found[:2]
    assert listed.damaged(2, task_id=2) == []
