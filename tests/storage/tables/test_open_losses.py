"""What Kafka may have lost stays open until it is settled, and is opened again by who asks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from sluice.runtime.positions import position_at
from sluice.storage.tables import eras, open_losses, schema
from sluice.storage.tables.eras import LookedAt
from sluice.storage.tables.open_losses import OpenLoss, Unarchived
from tests.tasks.database import sqlite


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def look(database: sa.Engine, epoch: int, cut: int) -> None:
    known = eras.known(database, "logs", "id", [0])[0]
    assert eras.looked_at(database, "logs", {0: LookedAt("id", epoch, cut, known)}) == []


def committed(database: sa.Engine, seq: int, position: int) -> None:
    row = {"topic": "logs", "seq": seq, "token": "t", "topic_id": "id", "start": {}, "tasks": []}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(**row, counts={}, end={"0": position}))


def archived(database: sa.Engine, first: int, following: int, lines: int = 1) -> None:
    row = {"topic": "logs", "topic_id": "id", "partition": 0, "first": first, "next": following}
    row |= {"records": 1, "lines": lines, "bytes": 1, "arrival_min": 1, "arrival_max": 1, "days": {}}
    with database.begin() as connection:
        row |= {"unparsed": 0, "generation": 1, "path": "p"}
        connection.execute(sa.insert(schema.archive_files).values(**row))


def found(database: sa.Engine) -> list[tuple[int, int, bool]]:
    return [(each.era, each.epoch, each.of_read) for each in open_losses.open_losses(database)]


def test_the_first_look_opens_nothing(database: sa.Engine) -> None:
    look(database, 3, 10)
    assert found(database) == []


def test_each_new_epoch_is_open_until_it_is_settled(database: sa.Engine) -> None:
    """A broker that starts again may have lost what nobody had read."""
    look(database, 0, 10)
    look(database, 1, 10)
    assert found(database) == [(0, 1, False)]
    known = open_losses.open_losses(database)
    look(database, 2, 10)
    open_losses.settle(database, known)  # of the epoch before
    assert found(database) == [(0, 2, False)]
    open_losses.settle(database, open_losses.open_losses(database))
    assert found(database) == []


def test_what_had_been_read_is_open_once(database: sa.Engine) -> None:
    look(database, 0, 0)
    committed(database, 1, 100)
    look(database, 1, 90)
    (loss,) = open_losses.open_losses(database)
    assert (loss.era, loss.begins, loss.reached, loss.of_read) == (1, 90, 100, True)
    assert loss.alert == "lost logs/0: offset 90, era 1"
    open_losses.settle(database, [loss])
    look(database, 2, 95)
    assert found(database) == [(1, 2, False)]


def test_what_another_volume_lacks_is_open_once_it_was_looked_at(database: sa.Engine) -> None:
    look(database, 4, 0)
    committed(database, 1, 100)
    eras.volume_changed(database, {"logs-0": 2})
    assert found(database) == []
    look(database, 4, 90)
    assert found(database) == [(1, 4, True)]


def test_a_person_opens_all_of_a_topic(database: sa.Engine) -> None:
    look(database, 0, 0)
    committed(database, 1, 100)
    look(database, 1, 90)
    open_losses.settle(database, open_losses.open_losses(database))
    wanted = open_losses.of_topic(database, "logs")
    assert [(each.era, each.of_read) for each in wanted] == [(0, False), (1, True)]
    open_losses.ask(database, "shop")
    assert found(database) == []
    open_losses.ask(database, "logs")
    assert found(database) == [(0, 0, False), (1, 1, True)]
    assert open_losses.open_losses(database) == wanted


@pytest.mark.parametrize(("ends", "lacking"), [([80], [(80, 100)]), ([100], []), ([], [(0, 100)])])
def test_what_the_archive_lacks_is_what_it_had_not_reached(
    database: sa.Engine, ends: list[int], lacking: list[tuple[int, int]]
) -> None:
    for following in ends:
        archived(database, 0, following)
    archived(database, max(ends, default=0), 100, lines=0)  # the archiver says that they are lost
    archived(database, position_at(1, 90), position_at(1, 95))
    loss = OpenLoss("logs", 0, 1, 1, 90, 100, datetime.now(UTC), None)
    assert open_losses.unarchived(database, [loss]) == [Unarchived(0, *each) for each in lacking]
    settled = OpenLoss("logs", 0, 1, 2, 90, 100, datetime.now(UTC), 1)
    assert open_losses.unarchived(database, [settled]) == []


def test_the_archives_alerts_about_lost_records_are_known(database: sa.Engine) -> None:
    rows = [
        {"topic": "logs", "topic_id": "id", "partition": 0, "first": f, "next": n}
        for f, n in ((0, 5), (80, 90))
    ]
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_losses).values([{**row, "reason": "r"} for row in rows]))
    assert open_losses.alerts_of(database, "logs", [Unarchived(0, 80, 90)]) == ["lost logs/0: 80-90"]
    assert open_losses.alerts_of(database, "logs", [Unarchived(1, 80, 90)]) == []


def test_where_the_speed_layer_is_and_what_it_counted(database: sa.Engine) -> None:
    assert open_losses.committed(database, "logs") == {}
    committed(database, 1, 7)
    committed(database, 2, 9)
    assert open_losses.committed(database, "logs") == {0: 9}
    old, now = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    own = {"topic": "logs", "host": "web1", "starts": b"", "ends": b""}
    with database.begin() as connection:
        for name, seen in (("a", old), ("b", now)):
            connection.execute(sa.insert(schema.ledger).values(**own, src_file=name, last_seen=seen))
    assert [row["src_file"] for row in open_losses.counted_files(database, "logs")] == ["a", "b"]
    assert open_losses.counted_since(database, "logs", now - timedelta(days=1)) == {("web1", "b")}


def test_what_other_topics_counted_of_some_hosts(database: sa.Engine) -> None:
    own = {"src_file": "a", "starts": b"", "ends": b""}
    with database.begin() as connection:
        for topic, host in (("logs", "web1"), ("shop", "web1"), ("shop", "web2"), ("shop_2", "web1")):
            connection.execute(sa.insert(schema.ledger).values(**own, topic=topic, host=host))
    found = open_losses.counted_elsewhere(database, "logs", {"web1"})
    assert [row["host"] for row in found] == ["web1", "web1"]
    assert open_losses.counted_elsewhere(database, "shop", set()) == []


def test_how_many_files_retention_forgot(database: sa.Engine) -> None:
    assert open_losses.forgotten_files(database, "logs") == 0
    counts = dict.fromkeys(("seq", "records", "doubled", "counted", "dead", "dead_letters"), 0)
    with database.begin() as connection:
        connection.execute(sa.insert(schema.pruned).values(topic="logs", files=3, **counts))
    assert open_losses.forgotten_files(database, "logs") == 3


def test_days_are_marked_and_never_unmarked(database: sa.Engine) -> None:
    one, other, unknown = (date(2026, 1, day) for day in (1, 2, 3))
    own = {"topic": "logs", "partition": 0, "lines": 1, "last_offset": 50}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.event_days).values([{**own, "day": day} for day in (one, other)]))
    open_losses.mark_days(database, "logs", {(one, 0): 90, (other, 0): 40, (unknown, 0): 90, (one, 1): 9})
    with database.connect() as connection:
        rows = connection.execute(sa.select(schema.event_days.c.day, schema.event_days.c.last_offset)).all()
    assert [tuple(row) for row in rows] == [(one, 90), (other, 50)]
