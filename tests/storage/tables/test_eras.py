"""Eras of a log: when one begins, and that no commit is made beside the decision."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sluice.runtime.positions import NO_EPOCH, Era, before_a_look, position_at
from sluice.storage.tables import eras, schema
from sluice.storage.tables.eras import LogMoved, LookedAt
from tests.tasks.database import sqlite


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def committed(database: sa.Engine, seq: int, position: int, topic_id: str = "id") -> None:
    row = {"topic": "logs", "seq": seq, "token": "t", "topic_id": topic_id, "start": {}, "tasks": []}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(**row, counts={}, end={"0": position}))


def archived(database: sa.Engine, following: int) -> None:
    row = {"topic": "logs", "topic_id": "id", "partition": 0, "first": 0, "next": following, "records": 1}
    row |= {"lines": 1, "bytes": 1, "arrival_min": 1, "arrival_max": 1, "days": {}, "unparsed": 0}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_files).values(**row, generation=1, path="p"))


def look(database: sa.Engine, epoch: int, cut: int, topic_id: str = "id") -> tuple[Era, ...]:
    known = eras.known(database, "logs", topic_id, [0])[0]
    assert eras.looked_at(database, "logs", {0: LookedAt(topic_id, epoch, cut, known)}) == []
    return eras.logs(database, "logs")[0].eras


def test_another_leader_that_lost_nothing_that_was_read_goes_on_with_the_era(
    database: sa.Engine,
) -> None:
    assert look(database, 0, 5) == (Era(0, "id", 0, 0),)
    committed(database, 1, 90)
    archived(database, 80)
    assert look(database, 3, 90) == (Era(0, "id", 0, 3),)
    assert look(database, 3, 100) == (Era(0, "id", 0, 3),)


@pytest.mark.parametrize(("counted", "filed"), [(100, 80), (80, 100)])
def test_an_era_begins_where_records_that_one_layer_read_are_lost(
    database: sa.Engine, counted: int, filed: int
) -> None:
    look(database, 0, 0)
    committed(database, 1, counted)
    archived(database, filed)
    after = Era(1, "id", 90, 1, 100)
    assert look(database, 1, 90) == (Era(0, "id", 0, 0), after)
    assert look(database, 1, 95)[-1] == after  # by whoever looks next
    committed(database, 2, position_at(1, 120))
    assert look(database, 2, 110)[-1] == Era(2, "id", 110, 2, 120)


def test_a_topic_that_was_made_again_begins_at_its_first_offset(database: sa.Engine) -> None:
    look(database, 4, 0)
    committed(database, 1, 10)
    assert look(database, 0, 500, "new")[-1] == Era(1, "new", 0, 0, 10)


def test_what_was_counted_before_there_were_eras_is_the_first_one(database: sa.Engine) -> None:
    committed(database, 1, 10, "old")
    assert look(database, 0, 500, "new") == (Era(0, "old", 0, 0), Era(1, "new", 0, 0, 10))


def test_a_log_that_ends_before_what_was_read_at_the_same_epoch_is_another_one(database: sa.Engine) -> None:
    look(database, 0, 0)
    committed(database, 1, 10)
    assert look(database, 0, 7)[-1] == Era(1, "id", 7, 0, 10)


def test_an_archive_that_is_ahead_of_a_log_that_nobody_has_looked_at_yet_begins_an_era(
    database: sa.Engine,
) -> None:
    archived(database, 20)
    assert look(database, 0, 10) == (Era(0, "id", 0, 0), Era(1, "id", 10, 0, 20))


def test_no_commit_is_made_of_a_log_that_moved(database: sa.Engine) -> None:
    look(database, 0, 0)
    with database.begin() as connection:
        eras.hold(connection, "logs", {0: (0, 0)})
    look(database, 1, 0)
    with database.begin() as connection, pytest.raises(LogMoved, match="leader of partition 0 changed"):
        eras.hold(connection, "logs", {0: (0, 0)})


def test_what_is_read_while_kafka_is_asked_begins_no_era(database: sa.Engine) -> None:
    look(database, 0, 0)
    known = eras.known(database, "logs", "id", [0])[0]
    committed(database, 1, 10)
    assert eras.looked_at(database, "logs", {0: LookedAt("id", 0, 5, known)}) == []
    assert eras.logs(database, "logs")[0].eras == (Era(0, "id", 0, 0),)


def test_a_look_that_others_overtook_books_nothing(database: sa.Engine) -> None:
    look(database, 0, 0)
    known = eras.known(database, "logs", "id", [0])[0]
    look(database, 2, 1000)
    committed(database, 1, 1010)
    assert eras.looked_at(database, "logs", {0: LookedAt("id", 2, 1000, known)}) == [0]
    assert eras.looked_at(database, "logs", {0: LookedAt("id", 1, 900, known)}) == [0]
    assert eras.logs(database, "logs")[0].eras == (Era(0, "id", 0, 2),)


def test_another_volume_begins_an_era_where_the_log_was_read_to(database: sa.Engine) -> None:
    look(database, 4, 0)
    committed(database, 1, 100)
    for _ in range(2):  # the second time does nothing
        eras.volume_changed(database, {"logs-0": 2})
    before, after = eras.logs(database, "logs")[0].eras
    assert before == Era(0, "id", 0, 4)
    assert after == Era(1, "id", 100, before_a_look(2), 100)
    assert (after.shared, after.known, before.shared, before.known) == (2, 2, None, 4)
    with (
        database.begin() as connection,
        pytest.raises(LogMoved),
    ):  # who read the volume before commits nothing
        eras.hold(connection, "logs", {0: (0, 4)})


@pytest.mark.parametrize(("cut", "begins"), [(90, 90), (100, 100), (120, 100)])
def test_whoever_looks_first_lets_the_era_begin_where_the_volume_s_own_records_do(
    database: sa.Engine, cut: int, begins: int
) -> None:
    look(database, 4, 0)
    committed(database, 1, 100)
    eras.volume_changed(database, {"logs-0": 2})
    after = Era(1, "id", begins, 4, 100)
    assert look(database, 4, cut) == (Era(0, "id", 0, 4), after)
    assert look(database, 6, 500)[1:] == (Era(1, "id", begins, 6, 100),)


def test_a_volume_that_has_all_epochs_that_were_looked_at_begins_none(database: sa.Engine) -> None:
    look(database, 4, 0)
    committed(database, 1, 100)
    assert eras.volume_changed(database, {"logs-0": 4, "other-0": 9}) == 0
    assert len(eras.logs(database, "logs")[0].eras) == 1


def test_a_volume_without_the_partition_shares_nothing_with_it(database: sa.Engine) -> None:
    look(database, 0, 0)
    committed(database, 1, 100)
    assert eras.volume_changed(database, {"logs-1": 7}) == 1
    assert eras.logs(database, "logs")[0].newest.shared == NO_EPOCH
    assert look(database, 0, 500, "new")[-1] == Era(1, "new", 0, 0, 100)


def test_an_empty_database_knows_nothing_of_another_volume() -> None:
    assert eras.volume_changed(sa.create_engine("sqlite://"), {}) == 0
