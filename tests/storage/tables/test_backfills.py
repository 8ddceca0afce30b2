"""The book of backfills and its effects on the book of days, on SQLite without a daemon."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from sluice.batch.task_versions import task_versions
from sluice.engine.plan import Range
from sluice.runtime.days import days_of
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import BackfillPointer, Backfills, UnknownBackfill
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.retention import Floor, LastLine, RetentionBook, expired_days
from tests.storage.booked import DAY, NEXT, NOW, ask, commit, compute, database, open_range

__all__ = ["database"]  # a fixture


@pytest.fixture
def book(database: sa.Engine) -> Backfills:
    return Backfills(database, patience=0)


def pointer(bucket: int, day: date = DAY, column: str = "s:1", start: int = 0) -> BackfillPointer:
    return BackfillPointer(f"b1v1/{day}/{start}/2/{bucket}", 1, 1, day, start, 2, bucket, column, 100)


def test_a_request_is_written_down_and_in_the_tasks_history(book: Backfills) -> None:
    asked = ask(book)
    assert (asked.label, asked.state, asked.days, asked.ended) == ("1v1", "requested", [DAY, NEXT], False)
    assert book.get(asked.id) == asked
    with book.engine.connect() as connection:
        change = connection.execute(sa.select(schema.task_changes).order_by(schema.task_changes.c.id.desc()))
        row = change.first()
    assert row is not None
    assert (row.action, row.by, row.detail) == ("backfilled", "ann", "2015-05-17 to 2015-05-18")
    book.set_run(asked.id, "manual__1")
    book.set_running(asked.id)
    book.set_done_days(asked.id, 1)
    book.set_failed(asked.id, "HBase is away")
    failed = book.get(asked.id)
    assert (failed.state, failed.done_days, failed.message) == ("failed", 1, "HBase is away")
    assert failed.finished_at is not None
    book.set_running(asked.id)
    assert (book.get(asked.id).message, book.get(asked.id).finished_at) == (None, None)
    book.set_finished(asked.id)
    assert book.get(asked.id).ended
    assert [each.id for each in book.of_version(1, 1)] == [asked.id]
    with pytest.raises(UnknownBackfill, match="there is no backfill 99"):
        book.get(99)


def test_a_days_blocks_are_replaced_as_a_whole_with_a_new_revision(book: Backfills) -> None:
    asked = ask(book)
    assert book.revision("logs") == 0
    with book.filling(asked) as filling:
        filling.replace(DAY, [pointer(0), pointer(1)], 10)
        filling.replace(NEXT, [pointer(0, NEXT)], 5)
        assert book.revision("logs") == 2
        assert {each.row for each in book.pointers([(1, 1, 0)])} == {
            "b1v1/2015-05-17/0/2/0", "b1v1/2015-05-17/0/2/1", "b1v1/2015-05-18/0/2/0",
        }  # fmt: skip
        filling.replace(DAY, [pointer(1, column="s:2")], 10)
        filling.set_projected(DAY)
        filling.hold()
    assert [each.column for each in book.pointers_of(1, 1, DAY)] == ["s:2"]
    assert [(each.day, each.lines, each.revision, each.projected) for each in book.filled("logs")] == [
        (DAY, 10, 4, True), (NEXT, 5, 2, False),
    ]  # fmt: skip
    assert book.filled("logs", NEXT)[0].backfill_id == asked.id
    assert book.filled("other") == []


def test_a_backfill_owns_what_is_below_the_first_commit_whatever_came_later(
    book: Backfills, database: sa.Engine
) -> None:
    assert book.boundary(1, 1) is None
    open_range(database, 5, 40)
    open_range(database, 9, 70)  # paused, and resumed
    assert book.boundary(1, 1) == {"0": 40}


def test_a_filled_day_is_computed_again_but_not_before_it_is_projected(
    book: Backfills, database: sa.Engine
) -> None:
    commit(database, 1, 0, 100)
    open_range(database, 1, 40)
    days = Days(database, "logs")
    compute(database)
    assert days.marked() == []
    with book.filling(ask(book)) as filling:
        filling.replace(DAY, [pointer(0)], 10)
        # The online results change one by one now, so they must not be compared in any case.
        assert days.marked() == [DAY]
        found = task_versions(database, "logs", DAY)
        assert (found.filled, found.backfills) == ({}, 1)
        compute(database, backfills=found.backfills)
        entry = days.get(DAY)
        assert entry is not None
        assert days.superseded(entry) == "task version 1v1 was filled backwards after it was computed"
        filling.set_projected(DAY)
    assert days.marked() == [DAY]
    found = task_versions(database, "logs", DAY)
    assert found.filled == {(1, 1): [Range.of({}, {"0": 40})]}
    assert found.ranges == {(1, 1): [Range.of({"0": 40})]}
    assert task_versions(database, "logs", NEXT).filled == {}
    assert task_versions(database, "logs").filled == {}
    compute(database, backfills=found.backfills)
    compute(database, NEXT)  # nothing was filled there
    assert days.marked() == []


def test_a_day_that_no_night_computed_is_missed_for_a_month(database: sa.Engine) -> None:
    today = datetime.now(UTC).date()
    ago = {n: today - timedelta(days=n) for n in (0, 1, 2, 3, 31, 32)}
    with database.begin() as connection:
        for topic, days in {"logs": ago.values(), "other": [ago[2]]}.items():
            rows = [
                {"topic": topic, "day": day, "partition": part, "lines": day != ago[1], "last_offset": 5}
                for day in days
                for part in (0, 1)
            ]
            connection.execute(sa.insert(schema.event_days), rows)
        connection.execute(sa.insert(schema.dropped_days).values(topic="logs", day=ago[3]))
    book = Days(database, "logs")
    assert book.missed() == [ago[31], ago[2], ago[1]]
    compute(database, ago[2])
    assert book.missed() == [ago[31], ago[1]]


def test_the_floor_is_the_newest_commit_that_is_old_enough(database: sa.Engine) -> None:
    book = RetentionBook(database, "logs")
    assert book.floor(NOW) is None
    for seq in (1, 2, 3):
        commit(database, seq, seq * 10, seq * 10 + 10, NOW - timedelta(days=10 - seq))
    assert book.floor(NOW - timedelta(days=9)) is None
    assert book.floor(NOW - timedelta(days=7, hours=12)) == Floor(2, {"0": 30})
    assert RetentionBook(database, "other").floor(NOW) is None


def test_old_commits_go_and_their_sums_stay(database: sa.Engine) -> None:
    from sluice.storage.tables.topic_totals import TopicTotals, _add_commits, _add_pruned

    for seq in range(1, 8):
        commit(database, seq, seq * 10, seq * 10 + 10)
    compute(database, seq=3)  # the book of days needs this one
    with database.begin() as connection:
        connection.execute(sa.insert(schema.projections).values(topic="logs", seq=5))
    book = RetentionBook(database, "logs")
    for pruned in (3, 0):  # commits 1, 2 and 4; of 5 it is asked whether a cut is passed
        assert book.prune_commits(Floor(7, {"0": 80})) == pruned
        with database.connect() as connection:
            left = connection.execute(sa.select(schema.commits.c.seq)).scalars().all()
            totals = TopicTotals()
            _add_commits(connection, "logs", totals)
            _add_pruned(connection, "logs", totals)
        assert sorted(left) == [3, 5, 6, 7]
        assert (totals.lines, totals.doubled, totals.counted, totals.dead) == (70, 7, 49, 14)


def test_a_day_that_is_not_over_is_to_come_and_one_that_is_waits_for_its_night(database: sa.Engine) -> None:
    from sluice.storage.tables import topic_totals

    today = date(2026, 1, 1)
    for day, last in ((DAY, 7), (today, 8), (date(2099, 1, 1), 9)):
        row = {"topic": "logs", "day": day, "partition": 0, "lines": 1, "last_offset": last}
        with database.begin() as connection:
            connection.execute(sa.insert(schema.event_days).values(row))
    with database.connect() as connection:
        found = topic_totals.read(connection, "logs", today)
    assert found.stale_days == [DAY.isoformat()]
    assert found.days_to_come == {"2026-01-01": 1, "2099-01-01": 1}
    assert found.event_lines == 3


def test_dropped_days_are_marked_once_and_have_no_results(database: sa.Engine) -> None:
    commit(database, 1, 0, 100)
    open_range(database, 1, 0)
    book = RetentionBook(database, "logs")
    assert book.mark_dropped([NEXT, DAY]) == [DAY, NEXT]
    assert book.mark_dropped([DAY]) == []
    assert book.mark_dropped([]) == []
    assert book.dropped() == {DAY, NEXT}
    assert Days(database, "logs").dropped(DAY)
    assert not Days(database, "other").dropped(DAY)
    found = task_versions(database, "logs", DAY)
    assert found.dropped
    assert list(found.ranges) == [(1, 1)]  # they still say which lines were dead letters


def test_what_a_late_line_or_a_backfill_changed_is_not_forgotten(
    database: sa.Engine, book: Backfills
) -> None:
    seen = [StatePeriod(1, 1, start, 1, 5, 5, 9) for start in (0, 1)]
    with database.begin() as connection:
        for each in seen:
            connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(each)))
        t = schema.state_periods
        connection.execute(sa.update(t).where(t.c.period_start == 1).values(seq=6))
    with book.filling(ask(book)) as filling:
        filling.replace(DAY, [pointer(0), pointer(1)], 1)
    retention = RetentionBook(database, "logs")
    assert retention.versions() == [(1, 1)]
    assert retention.periods(1, 1) == [0, 1]
    assert retention.forget_periods(seen) == ([seen[0].key], 0)
    with database.connect() as connection:
        assert connection.execute(sa.select(schema.state_periods.c.period_start)).scalars().all() == [1]
    before = book.revision("logs")
    retention.forget_filled([pointer(0), pointer(1, column="s:9")])
    assert [each.bucket for each in book.pointers_of(1, 1, DAY)] == [1]
    assert book.revision("logs") == before + 1  # the speed layer keeps pointers in memory


@pytest.mark.parametrize(("since", "kept"), [([5, 9], [3, 7]), ([7], [7]), ([2], [1, 3, 7]), ([], [7])])
def test_epochs_before_every_period_are_forgotten(
    database: sa.Engine, since: list[int], kept: list[int]
) -> None:
    t = schema.epochs
    with database.begin() as connection:
        for first in (1, 3, 7):
            connection.execute(sa.insert(t).values(topic="logs", first_seq=first, token=str(first)))
        for start, seq in enumerate(since):
            period = StatePeriod(1, 1, start, 1, seq, 9, 9)
            connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(period)))
    RetentionBook(database, "logs").prune_epochs()
    with database.connect() as connection:
        assert connection.scalars(sa.select(t.c.first_seq).order_by(t.c.first_seq)).all() == kept


def test_dead_letters_and_files_go_by_their_own_age(database: sa.Engine) -> None:
    with database.begin() as connection:
        for n, at in enumerate((NOW - timedelta(days=3), NOW)):
            letter = {"partition": 0, "offset": n, "reason": "r", "bytes": 1, "line": b"", "arrived_at": at}
            connection.execute(sa.insert(schema.dead_letters).values(topic="logs", **letter))
            file = {"host": "web1", "src_file": f"f{n}", "starts": b"", "ends": b"", "last_seen": at}
            connection.execute(sa.insert(schema.ledger).values(topic="logs", **file))
    book = RetentionBook(database, "logs")
    before = NOW - timedelta(days=1)
    assert (book.prune_dead_letters(before), book.prune_ledger(before)) == (1, 1)
    assert (book.prune_dead_letters(before), book.prune_ledger(before)) == (0, 0)
    with database.connect() as connection:
        row = connection.execute(sa.select(schema.pruned)).one()
    assert (row.dead_letters, row.files, row.records) == (1, 1, 0)


def test_a_day_expires_with_its_last_line_of_all_partitions() -> None:
    lines = [LastLine(DAY, 0, 9), LastLine(DAY, 1, 4), LastLine(NEXT, 0, 10), LastLine(NEXT, 1, 0)]
    assert expired_days(lines, {"0": 10, "1": 5}) == {DAY}
    assert expired_days(lines, {"0": 11, "1": 5}) == {DAY, NEXT}
    assert expired_days(lines, {"0": 11}) == set()
    assert expired_days([], {"0": 11}) == set()


def test_a_period_lies_in_the_days_that_it_covers() -> None:
    day = 86_400_000
    assert days_of(0, day) == [date(1970, 1, 1)]
    assert days_of(day - 1, day + 1) == [date(1970, 1, 1), date(1970, 1, 2)]
    assert days_of(-day, 2 * day) == [date(1969, 12, 31), date(1970, 1, 1), date(1970, 1, 2)]
