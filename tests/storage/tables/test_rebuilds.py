"""The book of rebuilds: one cut, staged days, and one transaction that switches; on SQLite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.storage.tables import alerts, recounts, schema
from sluice.storage.tables.archive_expiry import DaysExpired
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.epochs import PeriodKey, StatePeriod
from sluice.storage.tables.open_losses import LossesOpen, open_losses, settle
from sluice.storage.tables.rebuilds import (
    PAUSE,
    PLATFORM,
    BeginsAnew,
    FilledMeanwhile,
    RebuildMoved,
    Rebuilds,
    RebuildState,
    UnknownRebuild,
)
from sluice.storage.tables.recounts import BlockDamage, Recounts
from tests.storage.booked import DAY, NEXT, ask, commit, database, expire
from tests.storage.booked import lose as lose_records

__all__ = ["database"]  # a fixture

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def period(start: int) -> StatePeriod:
    return StatePeriod(1, 1, start, 1, 1, 5, 100)


def pointer(start: int, day: date = DAY, column: str = "s:1", owner: str = "r") -> BackfillPointer:
    return BackfillPointer(f"{owner}1v1/{day}/{start}/1/0", 1, 1, day, start, 1, 0, column, 9)


@pytest.fixture
def book(database: sa.Engine) -> Rebuilds:
    commit(database, 1, 0, 100)
    commit(database, 2, 100, 250)
    with database.begin() as connection:
        for start in (0, 1, 2):
            connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(period(start))))
        for each in (pointer(0, owner="b", column="s:0"), pointer(2, owner="b", column="s:0")):
            connection.execute(sa.insert(schema.backfill_blocks).values(topic="logs", **vars(each)))
    return Rebuilds(database, patience=0)


def keys(*starts: int) -> set[PeriodKey]:
    return {(1, 1, start) for start in starts}


def lose(book: Rebuilds, *starts: int) -> None:
    own = [BlockDamage((1, 1, start), "lost", period(start)) for start in starts]
    assert Recounts(book.engine, "logs").set_aside(own) == keys(*starts)


def test_a_request_is_in_the_book_and_in_the_history(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], DAY, NEXT, user="ann")
    assert (asked.state, asked.versions, asked.first_day) == (RebuildState.REQUESTED, ((1, 1),), DAY)
    assert book.unfinished("logs") == [asked]
    assert book.unfinished("other") == []
    with book.engine.connect() as connection:
        h = schema.history.c
        row = connection.execute(sa.select(h.who, h.what, h.name, h.action, h.after)).all()[-1]
    assert tuple(row) == ("ann", "topic", "logs", "rebuilt", f"1v1; {DAY} to {NEXT}")
    with pytest.raises(UnknownRebuild, match="there is no rebuild 99: ask for one"):
        book.get(99)


def test_it_begins_at_the_end_of_the_newest_commit_and_its_periods_have_no_state(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    begun = book.begin(asked.id, keys(0, 1), [NEXT, DAY])
    assert (begun.state, begun.cut, begun.cut_seq) == (RebuildState.COUNTING, {"0": 250}, 2)
    assert (begun.days, begun.done_days) == ((DAY, NEXT), ())
    assert book.periods(asked.id) == keys(0, 1)
    with book.engine.connect() as connection:
        assert connection.scalars(sa.select(schema.state_periods.c.period_start)).all() == [2]
    assert alerts.open_alerts(book.engine, recounts.ALERTS) == []  # somebody asked: nothing is lost


def test_commits_wait_for_as_many_statements_however_many_periods_it_takes(book: Rebuilds) -> None:
    asked: list[str] = []
    sa.event.listen(book.engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    counts = []
    for periods in (3, 2_500):
        number = book.request("logs", [(1, 1)], user="ann").id
        asked.clear()
        book.begin(number, keys(*range(periods)), [DAY])
        gathered = [n for n, each in enumerate(asked) if each.startswith("INSERT INTO wanted_recounts")]
        counts.append(len(asked) - gathered[-1])
        assert book.periods(number) == keys(*range(periods))
    assert counts[0] == counts[1]


def test_what_was_set_aside_keeps_its_reason_when_a_rebuild_takes_it(book: Rebuilds) -> None:
    lose(book, 0)
    asked = book.request("logs", None, user="ann")
    book.begin(asked.id, keys(0, 1), [DAY])
    rows = {each.key: each for each in Recounts(book.engine, "logs").all()}
    assert {key: (row.why, row.rebuild_id) for key, row in rows.items()} == {
        (1, 1, 0): ("lost", asked.id),
        (1, 1, 1): (None, asked.id),
    }


def test_staged_blocks_count_only_once_all_are_switched(book: Rebuilds) -> None:
    backfills = Backfills(book.engine)
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0, 1), [DAY])
    book.stage(asked.id, DAY, [pointer(0), pointer(0, owner="b"), pointer(1)], 7)
    assert backfills.pointers(keys(0, 1)) == [pointer(0, owner="b", column="s:0")]
    assert backfills.rows_at("r1v1/") == {
        (b"r1v1/2015-05-17/0/1/0", b"s:1"),
        (b"r1v1/2015-05-17/1/1/0", b"s:1"),
    }
    before = backfills.revision("logs")
    book.switch(asked.id)
    found = {(each.row, each.column) for each in backfills.pointers(keys(0, 1, 2))}
    assert found == {
        ("b1v1/2015-05-17/0/1/0", "s:1"),
        ("r1v1/2015-05-17/0/1/0", "s:1"),
        ("r1v1/2015-05-17/1/1/0", "s:1"),
        ("b1v1/2015-05-17/2/1/0", "s:0"),  # of a period that was not rebuilt
    }
    assert backfills.revision("logs") == before + 1
    assert Recounts(book.engine, "logs").of(keys(0, 1)) == set()  # readers have them again
    assert backfills.unsettled("logs") == {(1, 1)}  # but their results are being written
    assert backfills.with_blocks("logs") == {(1, 1)}
    book.finish(asked.id)
    done = book.get(asked.id)
    assert (done.state, done.lines, done.done_days) == (RebuildState.FINISHED, 7, (DAY,))
    assert Recounts(book.engine, "logs").all() == []
    assert backfills.unsettled("logs") == set()


def test_a_day_that_is_staged_twice_counts_once(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0), [DAY])
    book.stage(asked.id, DAY, [pointer(0, column="s:1")], 1)
    book.count_again(asked.id, {DAY}, Backfills(book.engine).revision("logs"))
    assert book.get(asked.id).done_days == ()
    book.stage(asked.id, DAY, [pointer(0, column="s:2")], 1)
    book.switch(asked.id)
    (found,) = (each for each in Backfills(book.engine).pointers(keys(0)) if each.row.startswith("r"))
    assert found.column == "s:2"


def test_a_day_that_a_backfill_filled_after_it_was_counted_is_counted_once_more(book: Rebuilds) -> None:
    backfills = Backfills(book.engine, patience=0)
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0), [DAY])
    book.stage(asked.id, DAY, [pointer(0)], 1)
    with backfills.filling(ask(backfills, DAY, DAY)) as filling:
        filling.replace(DAY, [pointer(0, owner="b", column="s:9")], 1)
    with pytest.raises(
        FilledMeanwhile, match="a backfill filled 2015-05-17 after the rebuild had counted it"
    ):
        book.switch(asked.id)
    assert backfills.pointers(keys(0)) == [pointer(0, owner="b", column="s:9")]
    book.count_again(asked.id, {DAY}, backfills.revision("logs"))
    book.stage(asked.id, DAY, [pointer(0), pointer(0, owner="b")], 2)
    book.switch(asked.id)
    assert len(backfills.pointers(keys(0))) == 2


def test_a_backfill_of_a_day_leaves_a_rebuilds_blocks_alone(book: Rebuilds) -> None:
    backfills = Backfills(book.engine, patience=0)
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0), [DAY])
    book.stage(asked.id, DAY, [pointer(0)], 1)
    book.switch(asked.id)
    with backfills.filling(ask(backfills, DAY, DAY)) as filling:
        filling.replace(DAY, [pointer(0, owner="b", column="s:9")], 1)
    assert {each.row[0] for each in backfills.pointers(keys(0))} == {"b", "r"}
    assert backfills.pointers_of(1, 1, DAY) == [pointer(0, owner="b", column="s:9")]


def test_a_period_damaged_again_meanwhile_is_not_ended_by_the_rebuild_under_way(book: Rebuilds) -> None:
    lose(book, 0, 1)
    number = book.next(NOW)
    assert number is not None
    book.begin(number, Recounts(book.engine, "logs").waiting(), [DAY])
    with book.engine.begin() as connection:
        connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(period(1))))
    lose(book, 1)
    book.stage(number, DAY, [pointer(0), pointer(1)], 2)
    book.switch(number)
    book.finish(number)
    assert Recounts(book.engine, "logs").waiting() == keys(1)
    assert [p.period_start for p in Backfills(book.engine).pointers(keys(0, 1))] == [0]
    (alert,) = alerts.open_alerts(book.engine, recounts.ALERTS)
    assert "the period from 1970-01-01T00:00:00Z" in alert.message
    again = book.next(NOW)
    assert again is not None
    assert again > number


def test_periods_that_were_set_aside_get_a_rebuild_without_being_asked_for(book: Rebuilds) -> None:
    assert book.next(NOW) is None
    lose(book, 2)
    number = book.next(NOW)
    assert number is not None
    found = book.get(number)
    assert (found.versions, found.requested_by) == (None, PLATFORM)
    assert book.next(NOW) == number  # it is the one that is due, not another one


def test_a_rebuild_that_failed_is_tried_again_after_a_pause_and_keeps_no_other_waiting(
    book: Rebuilds,
) -> None:
    lose(book, 2)
    first = book.next(NOW)
    assert first is not None
    book.set_failed(first, "HDFS is away")
    now = datetime.now(UTC)
    assert book.next(now) is None
    other = book.request("other", [(1, 1)], user="ann").id
    assert book.next(now) == other
    assert book.next(now + PAUSE + timedelta(seconds=5)) == first
    book.set_running(first)
    assert (book.get(first).message, book.get(first).tried_at) == (None, None)


def test_a_topic_without_a_commit_has_an_empty_cut(book: Rebuilds) -> None:
    asked = book.request("other", [(1, 1)], user="ann")
    assert book.begin(asked.id, [], []).cut == {}


def test_only_one_holds_the_locks(book: Rebuilds) -> None:
    with book.alone("logs"), book.unfilled([(1, 1), (1, 2)]):
        pass


def test_its_progress_in_words(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    assert asked.progress == "waits for the DAG rebuild"
    assert book.begin(asked.id, keys(0), [DAY, NEXT]).progress == "counting: 0 of 2 days, 0 lines"
    book.switch(asked.id)
    assert "results are being written" in book.get(asked.id).progress
    book.finish(asked.id)
    assert book.get(asked.id).progress == "finished: 2 days, 0 lines"


def test_a_rebuild_waits_until_it_is_settled_what_kafka_lost(book: Rebuilds) -> None:
    """Its lines are not in the archive below the cut, and what is sent again is a double beyond it."""
    lose_records(book.engine, 1)
    asked = book.request("logs", [(1, 1)], user="ann")
    with pytest.raises(
        LossesOpen, match="Kafka lost records of topic 'logs', partition 0, that had been read"
    ):
        book.begin(asked.id, keys(0), [DAY])
    assert (book.get(asked.id).state, book.periods(asked.id)) == (RebuildState.REQUESTED, set())
    settle(book.engine, open_losses(book.engine))
    assert book.begin(asked.id, keys(0), [DAY]).eras == {"0": 1}


def test_a_rebuild_begins_anew_once_an_era_began_after_its_cut(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    begun = book.begin(asked.id, keys(0), [DAY])
    book.stage(asked.id, DAY, [pointer(0)], 7)
    assert not book.outdated(begun)
    lose_records(book.engine, 1)
    with pytest.raises(LossesOpen):
        book.outdated(begun)
    with pytest.raises(LossesOpen):
        book.switch(asked.id)
    settle(book.engine, open_losses(book.engine))
    assert book.outdated(begun)
    with pytest.raises(BeginsAnew, match="the next try counts again, with another cut"):
        book.switch(asked.id)
    commit(book.engine, 3, 250, 300)
    anew = book.begin(asked.id, book.periods(asked.id), begun.days)
    assert (anew.cut, anew.done_days, anew.lines) == ({"0": 300}, (), 0)
    assert Backfills(book.engine).rows_at("r1v1/") == set()
    assert not book.outdated(anew)


def test_one_that_waits_is_tried_later_and_has_another_cut_then(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0), [DAY])
    book.set_waiting(asked.id, "Kafka lost records")
    waits = book.get(asked.id)
    assert (waits.waits, waits.progress) == (True, "waits: Kafka lost records")
    assert book.next(datetime.now(UTC)) is None
    assert book.outdated(waits)


def test_one_that_cannot_finish_holds_up_no_other_period(book: Rebuilds) -> None:
    lose(book, 1)
    first = book.next(NOW)
    assert first is not None
    book.begin(first, keys(1), [DAY])
    book.set_failed(first, "a file of the archive is damaged")
    lose(book, 2)
    second = book.next(datetime.now(UTC))
    assert second not in (None, first)
    assert Recounts(book.engine, "logs").waiting() == keys(2)


def test_what_cannot_be_counted_again_gets_no_rebuild(book: Rebuilds) -> None:
    lose(book, 1)
    Recounts(book.engine, "logs").expire(keys(1))
    assert book.next(NOW) is None


def test_a_period_of_which_lines_are_deleted_meanwhile_leaves_the_rebuild(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0, 1), [DAY, NEXT])
    book.stage(asked.id, DAY, [pointer(0)], 7)
    book.stage(asked.id, NEXT, [pointer(1, NEXT)], 7)
    expire(book.engine, DAY)
    with pytest.raises(DaysExpired):
        book.switch(asked.id)
    book.leave_out(asked.id, keys(0), [NEXT])
    book.switch(asked.id)
    book.finish(asked.id)
    listed = Recounts(book.engine, "logs")
    assert (listed.expired(), listed.waiting(), listed.of(keys(0, 1))) == (keys(0), set(), keys(0))
    (alert,) = alerts.open_alerts(book.engine, recounts.ALERTS)
    assert "somebody asked to count it again" in alert.message
    assert "cannot be counted again, because retention deleted lines" in alert.message
    assert [p.period_start for p in Backfills(book.engine).pointers(keys(0, 1))] == [0, 1]  # 0: of a backfill


def test_a_second_run_of_a_rebuild_that_got_further_changes_nothing(book: Rebuilds) -> None:
    asked = book.request("logs", [(1, 1)], user="ann")
    book.begin(asked.id, keys(0), [DAY])
    book.stage(asked.id, DAY, [pointer(0)], 7)
    with pytest.raises(RebuildMoved):
        book.finish(asked.id)
    book.switch(asked.id)
    found = Backfills(book.engine).pointers(keys(0))
    with pytest.raises(RebuildMoved, match="carried out by another run"):
        book.switch(asked.id)
    with pytest.raises(RebuildMoved):
        book.stage(asked.id, DAY, [], 0)
    with pytest.raises(RebuildMoved):
        book.begin(asked.id, keys(0), [DAY])
    assert Backfills(book.engine).pointers(keys(0)) == found


def test_the_table_of_rebuilds_is_the_first_that_each_step_locks(
    book: Rebuilds,
) -> None:
    """A step that waits for a backup must not hold the commits up meanwhile."""
    said: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("SELECT"):
            said.append(statement.partition("\n")[0])

    asked = book.request("logs", [(1, 1)], user="ann")
    sa.event.listen(book.engine, "before_cursor_execute", note)
    steps: list[Callable[[], object]] = [
        lambda: book.begin(asked.id, keys(0), [DAY]),
        lambda: book.stage(asked.id, DAY, [pointer(0)], 1),
        lambda: book.switch(asked.id),
        lambda: book.finish(asked.id),
    ]
    for step in steps:
        said.clear()
        step()
        assert said[0].startswith("UPDATE rebuilds SET")
