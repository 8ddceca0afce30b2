"""What a member measures of its partitions, and the rebalances that it writes down."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import sqlalchemy as sa

from sluice.archive import rebalances as module
from sluice.archive.loads import PLENTY, SETTLED_SECONDS, Loads
from sluice.archive.rebalances import Rebalances
from sluice.storage.tables.rebalances import Rebalance
from sluice_lab.waiting import SECONDS
from tests.messages import Message


def messages(*sizes: int) -> list[Message]:
    return [Message(0, b"x" * size, []) for size in sizes]


def test_a_load_is_what_comes_and_what_waits_in_bytes() -> None:
    loads = Loads()
    loads.took(0, messages(100, 300))
    for second in range(12):
        loads.look(0, 10.0 + second, 500 + 50 * second, 900)
    load = loads.loads()[0]
    assert load.rate == pytest.approx(50 * 200)
    assert load.lag == pytest.approx(150 * 200)


def test_a_partition_that_was_not_read_or_is_new_has_no_load_yet() -> None:
    loads = Loads()
    loads.look(0, 10.0, 1000, 900)
    loads.look(0, 30.0, 1000, 900)
    loads.took(1, messages(100))
    loads.look(1, 10.0, 1000, 900)
    loads.look(1, 19.0, 1000, 900)
    assert loads.loads() == {}
    loads.look(1, 21.0, 1000, 900)
    assert loads.loads().keys() == {1}


def test_a_log_that_became_shorter_is_no_rate() -> None:
    loads = Loads()
    loads.took(0, messages(1))
    loads.look(0, 1.0, 1000, 0)
    loads.look(0, 12.0, 10, 0)
    assert loads.loads()[0].rate == 0


def test_the_pace_is_that_of_the_last_minute() -> None:
    loads = Loads()
    assert loads.pace(0) is None
    for second in range(200):
        # A file of 15 seconds' records at a time.
        loads.look(0, float(second), 10_000, second // 15 * 15 * 10 if second < 150 else 1500)
    assert loads.pace(0) == pytest.approx((1500 - 135 * 10) / 60)
    loads.forget(0)
    assert loads.pace(0) is None


def test_the_speed_is_what_a_member_fetches_while_it_need_not_wait() -> None:
    loads = Loads()
    for second in range(30):
        loads.took(0, messages(*[100] * (3 if second < 15 else 7)))
        # Until the 15th second it has all that there is; then a backlog comes.
        loads.worked(float(second), [0, 0] if second < 15 else [PLENTY, 1])
        assert (loads.speed() is None) == (second < 15 + SETTLED_SECONDS)
    assert loads.speed() == pytest.approx(700)


def test_an_outage_is_no_slowness() -> None:
    loads = Loads()
    for second in range(30):
        if second < 15:
            loads.took(0, messages(500))
        loads.worked(float(second), [PLENTY + 1])
    assert loads.speed() == pytest.approx(500)


def test_one_hot_partition_does_not_say_how_fast_its_member_is() -> None:
    loads = Loads()
    for second in range(30):
        loads.took(0, messages(500))
        loads.worked(float(second), [PLENTY + 1, 0, 0])
    assert loads.speed() is None


def test_a_rebalance_is_written_when_all_that_was_gained_is_read() -> None:
    written: list[Sequence[Rebalance]] = []
    rebalances = Rebalances("logs", "archiver-2", written.append)
    rebalances.gained([2, 0], 7, "archiver left")
    rebalances.reads(0)
    rebalances.reads(1)  # had it before
    assert not written
    rebalances.reads(2)
    rebalances.reads(2)
    (rows,) = written
    assert [(each.gained, each.lost) for each in rows] == [((0,), ()), ((2,), ())]
    assert {(each.generation, each.why, each.member) for each in rows} == {(7, "archiver left", "archiver-2")}
    assert len({each.at for each in rows}) == 1
    zero, two = (each.seconds for each in rows)
    assert zero is not None
    assert two is not None
    assert 0 <= zero <= two < 10


def test_what_was_not_read_before_the_next_rebalance_has_no_time_and_the_rest_has() -> None:
    written: list[Sequence[Rebalance]] = []
    rebalances = Rebalances("logs", "archiver", written.append)
    rebalances.gained([0, 1], 1, "archiver joined")
    rebalances.lost([], 2, "nothing was lost")
    rebalances.reads(0)
    rebalances.reads(0)
    rebalances.lost([1], 2, "archiver-2 joined")
    rebalances.reads(1)
    gained, (lost,) = written
    assert [(each.gained, each.seconds is None) for each in gained] == [((0,), False), ((1,), True)]
    assert (lost.gained, lost.lost, lost.seconds) == ((), (1,), None)


def test_a_member_that_ends_waits_until_all_is_written_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers, written = threading.Event(), list[Sequence[Rebalance]]()

    def add(database: sa.Engine, rows: Sequence[Rebalance]) -> None:
        assert answers.wait(SECONDS)
        written.append(rows)

    monkeypatch.setattr(module, "_add", add)
    rebalances = Rebalances.of(sa.create_engine("sqlite://"), "logs", "archiver")
    rebalances.lost([0], 1, "this member stops")
    rebalances.wait(0.01)
    assert not written
    answers.set()
    rebalances.wait(SECONDS)
    assert len(written) == 1
