"""Measured loads and speeds follow what happens, slowly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.assignment.base import AssignedPartition, PartitionLoad
from sluice.assignment.smoothing import SETTLED_SECONDS, ObservedGroup, Smoothed
from tests.examples import examples

AT = AssignedPartition("t", 0)
rates = st.floats(0, 1e9)
steps = st.floats(0.1, 100)


@given(seen=st.lists(st.tuples(rates, steps), min_size=1))
def test_a_smoothed_rate_stays_between_the_least_and_the_greatest(seen: list[tuple[float, float]]) -> None:
    smoothed = Smoothed()
    for rate, seconds in seen:
        smoothed.add(rate, seconds)
    assert smoothed.rate is not None
    assert min(rate for rate, _ in seen) * (1 - 1e-9) <= smoothed.rate
    assert smoothed.rate <= max(rate for rate, _ in seen) * (1 + 1e-9)


@given(rate=rates, seconds=st.floats(2, 50))
@examples(50)
def test_one_long_look_is_worth_two_short_ones(rate: float, seconds: float) -> None:
    one, two = Smoothed(rate=1e6), Smoothed(rate=1e6)
    one.add(rate, seconds)
    for _ in range(2):
        two.add(rate, seconds / 2)
    assert one.rate == pytest.approx(two.rate)


def test_a_half_life_counts_the_past_half() -> None:
    smoothed = Smoothed(half_life=10, rate=100.0)
    smoothed.add(0.0, 10)
    assert smoothed.rate == pytest.approx(50)


def test_a_partition_has_what_arrives_and_what_waits() -> None:
    seen = ObservedGroup()
    seen.log(0.0, AT, 1000, 400)
    seen.log(SETTLED_SECONDS, AT, 1000 + SETTLED_SECONDS * 1000, 5900)
    assert seen.loads() == {AT: PartitionLoad(1000.0, SETTLED_SECONDS * 1000 - 4900)}


def test_the_load_of_a_partition_that_was_just_added_is_not_known() -> None:
    seen = ObservedGroup()
    seen.log(0.0, AT, 1000, 400)
    assert seen.loads() == {}
    seen.log(SETTLED_SECONDS - 1, AT, 9000, 400)
    assert seen.loads() == {}


def test_a_log_that_was_made_again_has_no_negative_rate() -> None:
    seen = ObservedGroup()
    for at, end in ((0.0, 0), (SETTLED_SECONDS, 5000), (SETTLED_SECONDS + 1, 10)):
        seen.log(at, AT, end, 0)
    assert seen.loads() == {AT: PartitionLoad(5000 / SETTLED_SECONDS, 10)}


def test_an_idle_member_does_not_seem_slow() -> None:
    seen = ObservedGroup()
    seen.processed("a", 5e6, 1.0)
    seen.processed("a", 5e3, 0.001)  # in a minute with little to do
    seen.processed("a", 0.0, 0.0)
    assert seen.speeds() == {"a": pytest.approx(5e6)}
    seen.forget("a")
    assert seen.speeds() == {}
