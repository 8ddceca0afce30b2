"""A mean forgets by half-lives, however often it is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_hosts.units.smoothing import Mean, kept, read


@given(st.floats(0, 10), st.lists(st.floats(0.1, 100), min_size=1, max_size=20), st.floats(1, 1_000))
def test_the_beat_does_not_matter(value: float, beats: list[float], half_life: float) -> None:
    often = Mean(1.0, 0.5)
    for seconds in beats:
        often = often.then(value, seconds, half_life)
    once = Mean(1.0, 0.5).then(value, sum(beats), half_life)
    assert (often.total, often.weight) == pytest.approx((once.total, once.weight))


def test_after_a_half_life_the_past_and_the_present_weigh_the_same() -> None:
    long = Mean().then(2.0, 100_000, 300)
    assert long.then(4.0, 300, 300).value == pytest.approx(3.0)


def test_the_first_readings_are_their_own_mean_and_a_few_seconds_say_nothing() -> None:
    assert Mean().value is None
    assert Mean().then(7.0, 5, 300).value is None
    assert Mean().then(7.0, 60, 300).value == pytest.approx(7.0)
    assert Mean().then(7.0, 60, 300).then(1.0, 60, 300).value == pytest.approx(3.8, abs=0.1)


def test_means_are_kept_and_read() -> None:
    means = {"cpu": Mean(0.5, 0.75)}
    assert read(kept(means)) == means
