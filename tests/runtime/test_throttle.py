"""Guessing is slowed down by source and by name, in bounded memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.runtime.throttle import Queue, QueueFull, Rate, Throttle
from sluice_lab.waiting import until


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def clock(now: list[float]) -> Callable[[], float]:
    return lambda: now[0]


def test_after_some_failures_in_a_row_a_source_waits_with_a_name(
    now: list[float], clock: Callable[[], float]
) -> None:
    throttle = Throttle(tries=3, seconds=60, clock=clock)
    assert [throttle.take("here", "ann") for _ in range(5)] == [0, 0, 0, 60, 60]
    assert throttle.take("here", "bob") == 0
    assert throttle.take("there", "ann") == 0
    now[0] = 59
    assert throttle.wait("here", "ann") == 1
    now[0] = 61
    assert throttle.take("here", "ann") == 0
    assert throttle.take("here", "ann") == 60  # still no success since
    throttle.passed("here", "ann")
    assert throttle.wait("here", "ann") == 0


def test_a_source_has_a_budget_for_all_names(now: list[float], clock: Callable[[], float]) -> None:
    throttle = Throttle(burst=3, per_minute=6, clock=clock)
    assert [throttle.take("here", name) for name in "abcd"] == [0, 0, 0, 10]
    assert throttle.take("there", "d") == 0
    now[0] = 10
    assert [throttle.take("here", name) for name in "de"] == [0, 10]


def test_a_name_has_a_budget_for_all_sources_but_not_for_its_own(
    now: list[float], clock: Callable[[], float]
) -> None:
    throttle = Throttle(burst=3, per_minute=6, clock=clock)
    throttle.take("home", "ann")
    throttle.passed("home", "ann")
    assert [throttle.take(source, "ann") for source in "abcd"] == [0, 0, 0, 10]
    assert throttle.take("home", "ann") == 0
    throttle.passed("home", "ann")
    assert throttle.take("a", "bob") == 0


def test_a_right_password_costs_nothing(clock: Callable[[], float]) -> None:
    throttle = Throttle(tries=3, burst=3, clock=clock)
    for _ in range(10):
        assert throttle.take("here", "ann") == 0
        throttle.passed("here", "ann")
    for name in "abc":
        assert throttle.take("here", name) == 0
    assert throttle.take("here", "d") > 0


def test_an_own_account_gives_no_more_guesses(clock: Callable[[], float]) -> None:
    throttle, guesses = Throttle(tries=5, burst=20, clock=clock), 0
    for _ in range(100):
        throttle.take("here", "mallory")
        throttle.passed("here", "mallory")
        guesses += throttle.take("here", "ann") == 0
    assert guesses == 5


@pytest.mark.slow
def test_it_remembers_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle = Throttle(tries=1, burst=10_000)
    for number in range(10_100):
        throttle.take(f"s{number}", "ann")
        throttle.passed(f"s{number}", "ann")
        throttle.take(f"s{number}", f"n{number}")
    assert len(throttle._failed) == len(throttle._known) == 10_000
    assert all(len(budget._left) <= 10_000 for budget in throttle._budgets)


def test_few_work_at_a_time_and_one_of_each_source() -> None:
    queue, working, most, lock = Queue(running=2, waiting=30, each=8), list[str](), [0], threading.Lock()

    def work(source: str) -> None:
        with queue.place(source):
            with lock:
                working.append(source)
                most[0] = max(most[0], len(working))
                assert len(set(working)) == len(working)
            time.sleep(0.005)
            with lock:
                working.remove(source)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, "aaaabbbbccccdddd"))
    assert most == [2]


def test_the_queue_has_an_end_for_each_and_for_all() -> None:
    queue, go_on = Queue(running=1, waiting=6, each=2), threading.Event()

    def work(source: str, known: bool = False) -> str:
        try:
            with queue.place(source, known):
                go_on.wait(20)
        except QueueFull:
            return "busy"
        return "done"

    with ThreadPoolExecutor(10) as pool:
        first = [pool.submit(work, source) for source in "aabb"]
        until(lambda: queue._queued.total() == 4)
        assert work("a") == "busy"  # its own end
        assert work("c") == "busy"  # that of the unknown
        known = [pool.submit(work, source, True) for source in "cd"]
        until(lambda: queue._queued.total() == 6)
        assert work("e", known=True) == "busy"
        go_on.set()
        assert [each.result() for each in (*first, *known)] == ["done"] * 6
    assert work("a") == "done"


def test_a_rate_lets_a_burst_through_and_then_so_many_a_minute(
    now: list[float], clock: Callable[[], float]
) -> None:
    rate = Rate(60, clock=clock)
    assert [rate.take("ann") for _ in range(60)] == [0.0] * 60
    assert rate.take("ann") == 1.0
    assert rate.take("bob") == 0.0
    now[0] = 0.5
    assert rate.take("ann") == 0.5
    now[0] = 1.0
    assert rate.take("ann") == 0.0
    assert rate.take("ann") == 1.0
