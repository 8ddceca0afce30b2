from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.commits import (
    Commit,
    CommitLog,
    DayLines,
    FencedOut,
    LedgerRow,
    PeriodsGone,
    TopicClaim,
)
from sluice.storage.tables.epochs import CommittedColumns, Epochs, StatePeriod
from sluice.storage.tables.retention import RetentionBook

pytestmark = pytest.mark.stack


@pytest.fixture
def log(stack: Settings) -> CommitLog:
    return CommitLog(engine(stack), f"storage_{secrets.token_hex(4)}", patience=10)


def commit(seq: int, writer: str = "me", **other: object) -> Commit:
    whole: dict[str, object] = {
        "topic_id": "id",
        "committed_at": datetime(2026, 1, 1, 0, 0, seq, tzinfo=UTC),
        "start": {"0": seq * 10},
        "end": {"0": seq * 10 + 10},
        "tasks": [],
        "counts": {"lines": 10, "doubled": 0, "counted": 10, "dead": 0},
    }
    return Commit(seq=seq, token=writer, **{**whole, **other})  # type: ignore[arg-type]


def period(start: int, seq: int) -> StatePeriod:
    """A period that began with the commit `seq`."""
    return StatePeriod(TASK, 1, start, layout=1, since=seq, seq=seq, bytes=100)


TASK = 2_000_000_000 + secrets.randbelow(100_000_000)


def test_only_one_of_two_writers_gets_a_sequence_number(log: CommitLog) -> None:
    log.append(commit(1))
    with pytest.raises(FencedOut, match="commit 1 is that of writer me, not of other"):
        log.append(commit(1, "other", days=[DayLines(date(2026, 1, 1), 0, 5, 9)]))
    head = log.head()
    assert head is not None
    assert (head.seq, head.token, head.end) == (1, "me", {"0": 20})
    days = schema.event_days
    with log.engine.connect() as connection:
        count = sa.select(sa.func.count()).where(days.c.topic == log.topic)
        assert connection.scalar(count) == 0  # the loser wrote nothing


def test_a_commit_whose_answer_was_lost_is_made_once(log: CommitLog) -> None:
    day = [DayLines(date(2026, 1, 1), 0, 5, 9)]
    log.append(commit(1, days=day))
    log.append(commit(1, days=day))  # as after a connection that broke in COMMIT
    log.append(commit(2, days=[DayLines(date(2026, 1, 1), 0, 2, 4)]))
    t = schema.event_days
    with log.engine.connect() as connection:
        row = connection.execute(sa.select(t.c.lines, t.c.last_offset).where(t.c.topic == log.topic)).one()
    assert tuple(row) == (7, 9)


def test_ledger_and_periods_are_the_newest(log: CommitLog) -> None:
    first = LedgerRow("web1", "/a", b"\0" * 8, b"\1" * 8)
    second = LedgerRow("web1", "/a", b"\0" * 16, b"\1" * 16)
    other = LedgerRow("web2", "/a", b"\0" * 8, b"\2" * 8)
    log.append(commit(1, ledger=[first, other], periods=[period(0, 1), period(60, 1)]))
    wide = replace(period(0, 2), since=1, layout=4)
    log.append(commit(2, ledger=[second], periods=[wide]))
    assert sorted(log.ledger(), key=lambda row: row.host) == [second, other]
    assert log.periods([(TASK, 1, 0), (TASK, 1, 120)]) == {(TASK, 1, 0): wide}
    seen = log.snapshot([(TASK, 1, 0), (TASK, 1, 60)])
    assert (seen.head, log.newest(), seen.committed_at) == (2, 2, commit(2).committed_at)
    assert set(seen.periods.values()) == {wide, period(60, 1)}
    changed = log.changed_since(1)
    assert (list(changed.snapshot.periods.values()), changed.reopened) == ([wide], set())


def test_a_batch_that_was_built_on_periods_that_are_gone_does_not_count(log: CommitLog) -> None:
    log.append(commit(1, periods=[period(0, 1), period(60, 1)]))
    assert RetentionBook(log.engine, log.topic).forget_periods([period(60, 1)]) == ([(TASK, 1, 60)], 1)
    grown = [replace(period(start, 2), since=1) for start in (0, 60)]
    with pytest.raises(PeriodsGone, match=f"1 periods .* such as that of {TASK}v1 from 60"):
        log.append(commit(2, periods=grown))
    head = log.head()
    assert head is not None
    assert (head.seq, list(log.periods([(TASK, 1, 0), (TASK, 1, 60)]))) == (1, [(TASK, 1, 0)])
    again = [grown[0], period(60, 2)]  # the second one counted from nothing
    log.append(commit(2, periods=again))
    assert sorted(log.periods([(TASK, 1, 0), (TASK, 1, 60)]).values(), key=lambda p: p.since) == again
    with pytest.raises(PeriodsGone):  # it is another period of that name
        log.append(commit(3, periods=[replace(period(60, 3), since=1)]))


def test_a_token_has_an_epoch_until_the_next_token(log: CommitLog) -> None:
    assert (log.epochs(), log.newest()) == (Epochs(), 0)
    for seq, token in enumerate(("a", "a", "b", "b", "a"), 1):
        log.append(commit(seq, token))
    assert log.epochs() == Epochs((1, 3, 5), ("a", "b", "a"))


def test_a_snapshot_knows_the_epochs_since_its_periods_began(log: CommitLog) -> None:
    """The others are of no use to it, and there is one for each start of a writer in 400 days."""
    log.append(commit(1, "a"))
    log.append(commit(2, "a", periods=[period(0, 2)]))
    log.append(commit(3, "b"))
    log.append(commit(4, "b", periods=[period(60, 4)]))
    log.append(commit(5, "c"))
    old, new = (TASK, 1, 0), (TASK, 1, 60)
    assert log.snapshot([old, new]).readable == CommittedColumns(5, log.epochs())
    assert log.snapshot([new]).readable == CommittedColumns(5, Epochs((3, 5), ("b", "c")))
    assert log.snapshot([]).readable == CommittedColumns(5, Epochs((5,), ("c",)))
    assert log.changed_since(3).snapshot.readable == CommittedColumns(5, Epochs((3, 5), ("b", "c")))


def test_no_batch_looks_through_the_ranges_that_are_over(log: CommitLog) -> None:
    over = sa.text(
        'INSERT INTO task_ranges (task_id, version, first_seq, topic, start, "end") '
        "SELECT :task, n, n, :topic, '{}', '{}' FROM generate_series(1, 20000) n"
    )
    with log.engine.begin() as connection:
        connection.execute(over, {"task": TASK, "topic": log.topic})
    log.append(commit(1, opened=[(TASK + 1, 1)]))
    with log.engine.connect() as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("ANALYZE task_ranges"))
        asked: list[str] = []

        def ask(query: sa.Connection, cursor: Any, statement: str, parameters: Any, *_: object) -> None:
            if "task_ranges" in statement:
                asked.append(cursor.mogrify(statement, parameters).decode())

        sa.event.listen(log.engine, "before_cursor_execute", ask)
        try:
            assert log.open_versions() == {(TASK + 1, 1)}
            assert log.changed_since(19_999).reopened == {(TASK, 20_000)}
        finally:
            sa.event.remove(log.engine, "before_cursor_execute", ask)
        plans = ["\n".join(connection.exec_driver_sql(f"EXPLAIN {each}").scalars()) for each in asked]
        assert ["task_ranges_open" in plans[0], "task_ranges_begun" in plans[1]] == [True, True], plans
        connection.execute(sa.delete(schema.task_ranges).where(schema.task_ranges.c.topic == log.topic))


def test_task_versions_have_ranges_of_offsets(log: CommitLog) -> None:
    log.append(commit(1, opened=[(TASK, 1)]))
    assert log.open_versions() == {(TASK, 1)}
    log.append(commit(2, closed=[(TASK, 1)], opened=[(TASK, 2)]))
    log.append(commit(3, closed=[(TASK, 2)], opened=[(TASK, 1)]))
    t = schema.task_ranges
    query = sa.select(t.c.version, t.c.start, t.c.end).where(t.c.topic == log.topic).order_by(t.c.first_seq)
    with log.engine.connect() as connection:
        ranges = [tuple(row) for row in connection.execute(query)]
    assert ranges == [(1, {"0": 10}, {"0": 20}), (2, {"0": 20}, {"0": 30}), (1, {"0": 30}, None)]


def test_all_periods_of_a_version_that_was_opened_again_are_projected_again(log: CommitLog) -> None:
    def own(start: int, seq: int) -> StatePeriod:
        return replace(period(start, seq), task_id=other)

    other = TASK + 1
    log.append(commit(1, opened=[(other, 1)], periods=[own(0, 1)]))
    log.append(commit(2, closed=[(other, 1)], opened=[(other, 2)]))
    changed = log.changed_since(1)
    assert (changed.reopened, changed.snapshot.periods) == ({(other, 2)}, {})  # it has no older periods
    log.append(commit(3, closed=[(other, 2)], opened=[(other, 1)], periods=[own(60, 3)]))
    changed = log.changed_since(2)
    assert changed.reopened == {(other, 1)}
    assert set(changed.snapshot.periods.values()) == {own(0, 1), own(60, 3)}
    assert log.changed_since(3).snapshot.periods == {}


def test_the_projection_never_goes_back(log: CommitLog) -> None:
    assert log.projected() == 0
    log.set_projected(3)
    log.set_projected(2)
    assert log.projected() == 3


def test_a_topic_has_one_claim_at_a_time(stack: Settings) -> None:
    topic = f"storage_{secrets.token_hex(4)}"
    first, second = (TopicClaim(engine(stack), topic, driver) for driver in ("one", "two"))
    first.take()
    with pytest.raises(FencedOut, match="holds the topic's lock"):
        second.take(0.3)
    first.release()
    second.take()
    second.release()


def test_dead_letters_are_kept_once(log: CommitLog) -> None:
    letter = {
        "partition": 0,
        "offset": 5,
        "host": "web1",
        "src_file": "/a",
        "src_offset": 9,
        "reason": "no event time",
        "bytes": 3,
        "line": b"abc",
        "arrived_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    log.append(commit(1, dead_letters=[letter]))
    log.append(commit(2, dead_letters=[letter, {**letter, "offset": 6}]))
    t = schema.dead_letters
    with log.engine.connect() as connection:
        query = sa.select(t.c.offset).where(t.c.topic == log.topic).order_by(t.c.offset)
        assert connection.execute(query).scalars().all() == [5, 6]
