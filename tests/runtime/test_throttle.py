"""Guessing is slowed down, name by name, in bounded memory."""

from __future__ import annotations

from sluice.runtime.throttle import Rate, Throttle


def test_after_some_failures_in_a_row_a_name_waits() -> None:
    now = [0.0]
    throttle = Throttle(tries=3, seconds=60, clock=lambda: now[0])
    for _ in range(2):
        throttle.failed("ann")
        assert throttle.wait("ann") == 0
    throttle.failed("ann")
    assert throttle.wait("ann") == 60
    assert throttle.wait("bob") == 0
    now[0] = 59
    assert throttle.wait("ann") == 1
    now[0] = 61
    assert throttle.wait("ann") == 0
    throttle.failed("ann")  # still no success since
    assert throttle.wait("ann") == 60
    throttle.passed("ann")
    assert throttle.wait("ann") == 0


def test_it_remembers_no_more_names_than_it_may() -> None:
    throttle = Throttle(tries=1, names=2, clock=lambda: 0.0)
    for name in ("a", "b", "c"):
        throttle.failed(name)
    assert [throttle.wait(name) > 0 for name in ("a", "b", "c")] == [False, True, True]


def test_a_rate_lets_a_burst_through_and_then_so_many_a_minute() -> None:
    now = [0.0]
    rate = Rate(60, clock=lambda: now[0])
    assert [rate.take("ann") for _ in range(60)] == [0.0] * 60
    assert rate.take("ann") == 1.0
    assert rate.take("bob") == 0.0
    now[0] = 0.5
    assert rate.take("ann") == 0.5
    now[0] = 1.0
    assert rate.take("ann") == 0.0
    assert rate.take("ann") == 1.0
