from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage import schema
from sluice.storage.commits import (
    BlocksGone,
    Commit,
    CommitLog,
    DayLines,
    FencedOut,
    LedgerRow,
    Pointer,
    TopicClaim,
    column,
    column_seq,
)
from sluice.storage.postgres import engine
from sluice.storage.retention import RetentionBook

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
        "counts": {"records": 10, "doubled": 0, "counted": 10, "dead": 0},
    }
    return Commit(seq=seq, token=writer, **{**whole, **other})  # type: ignore[arg-type]


def pointer(bucket: int, seq: int, layout: int = 1) -> Pointer:
    row = f"{TASK}v1/0/{layout}/{bucket}"
    return Pointer(row, TASK, 1, 0, layout, bucket, seq, "me", 100)


TASK = 2_000_000_000 + secrets.randbelow(100_000_000)


def test_a_column_is_ordered_by_its_sequence_number() -> None:
    assert column(7, "ab") < column(10, "aa")
    assert column_seq(column(7, "ab")) == 7


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


def test_ledger_and_pointers_are_the_newest(log: CommitLog) -> None:
    first = LedgerRow("web1", "/a", b"\0" * 8, b"\1" * 8)
    second = LedgerRow("web1", "/a", b"\0" * 16, b"\1" * 16)
    other = LedgerRow("web2", "/a", b"\0" * 8, b"\2" * 8)
    log.append(commit(1, ledger=[first, other], blocks=[pointer(0, 1)]))
    log.append(commit(2, ledger=[second], blocks=[pointer(0, 2)]))
    assert sorted(log.ledger(), key=lambda row: row.host) == [second, other]
    assert log.pointers([(TASK, 1, 0), (TASK, 1, 60)]) == [pointer(0, 2)]
    grown = [pointer(0, 3, 2), pointer(1, 3, 2)]
    log.append(commit(3, blocks=grown, dropped=[pointer(0, 2).row]))
    assert sorted(log.pointers([(TASK, 1, 0)]), key=lambda p: p.bucket) == grown
    rows = log.rows_since(1)
    assert rows == sorted({pointer(0, 2).row, *(p.row for p in grown)})
    assert sorted(log.pointers_at(rows), key=lambda p: p.bucket) == grown


def test_a_batch_that_was_built_on_blocks_that_are_gone_does_not_count(log: CommitLog) -> None:
    first, second = pointer(0, 1), pointer(1, 1)
    log.append(commit(1, blocks=[first, second]))
    RetentionBook(log.engine, log.topic).forget_blocks([second], [])
    grown = [pointer(0, 2), pointer(1, 2)]
    with pytest.raises(BlocksGone, match=f"1 blocks .* such as {second.row}"):
        log.append(commit(2, blocks=grown, built_on=[first.row, second.row]))
    head = log.head()
    assert head is not None
    assert (head.seq, log.pointers([(TASK, 1, 0)])) == (1, [first])
    log.append(commit(2, blocks=grown, built_on=[first.row]))  # the second one counted from nothing
    assert sorted(log.pointers([(TASK, 1, 0)]), key=lambda p: p.bucket) == grown


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


def test_rows_of_a_version_that_was_opened_again_are_projected_again(log: CommitLog) -> None:
    def own(bucket: int, seq: int) -> Pointer:
        made = pointer(bucket, seq)
        return replace(made, row=made.row.replace(f"{TASK}v", f"{other}v"), task_id=other)

    other = TASK + 1
    log.append(commit(1, opened=[(other, 1)], blocks=[own(0, 1)]))
    log.append(commit(2, closed=[(other, 1)], opened=[(other, 2)]))
    assert log.rows_reopened(1) == []  # the new version has no older rows
    log.append(commit(3, closed=[(other, 2)], opened=[(other, 1)], blocks=[own(1, 3)]))
    assert log.rows_reopened(2) == [own(0, 1).row]
    assert log.rows_since(2) == sorted([own(0, 1).row, own(1, 3).row])


def test_the_projection_never_goes_back(log: CommitLog) -> None:
    assert log.projected() == 0
    log.set_projected(3)
    log.set_projected(2)
    assert log.projected() == 3


def test_a_topic_has_one_claim_at_a_time(stack: Settings) -> None:
    topic = f"storage_{secrets.token_hex(4)}"
    first, second = TopicClaim(engine(stack), topic), TopicClaim(engine(stack), topic)
    first.take()
    with pytest.raises(FencedOut, match="holds the topic's lock"):
        second.take(0.3)
    first.release()
    second.take(0.3)
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
