"""The last 24 hours from samples: what counters grew by, over restarts and gaps, in points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.monitoring.flow.past import KEPT, POINTS, STEP, FlowPast, History, Minute, grown
from sluice.storage.tables import samples
from tests.monitoring.flow.made import AT, TIERS, figures, past
from tests.tasks.database import sqlite

NOW = AT.timestamp()
KEY = ("lines",)


@given(st.lists(st.integers(0, 100), min_size=1), st.sets(st.integers(0, 50)))
def test_a_counter_that_begins_again_loses_nothing(steps: list[int], restarts: set[int]) -> None:
    """Each step adds to the counter; before some steps its process starts again, with 0."""
    total = value = 0
    before = {(KEY, "a"): 0.0}
    for number, step in enumerate(steps):
        again = number in restarts and step < value
        value = step if again else value + step
        now = {(KEY, "a"): float(value)}
        total += round(grown(before, now)[KEY])
        before = now
    assert total == sum(steps)


def test_books_that_shrink_by_retention_show_no_lines() -> None:
    key = ("hop", "online")
    assert grown({(key, "logs"): 100.0}, {(key, "logs"): 40.0}) == {key: 0.0}


def test_a_rate_of_a_point_is_that_of_its_minutes_and_gaps_stay() -> None:
    whole = past(90)
    rates = whole.rates(("lines",), NOW)
    known = [rate for rate in rates if rate is not None]
    assert len(rates) == POINTS
    assert set(known) == {11.0}  # 660 a minute
    assert 9 <= len(known) <= 11
    assert rates[0] is None
    assert rates[-1] == 11.0


@given(st.integers(round(-2 * KEPT), round(STEP)))
def test_a_minute_falls_into_one_point_or_is_too_old(age: int) -> None:
    minute = Minute(NOW + age, 60.0, {}, {("lag", "speed"): 7.0})
    points = FlowPast((minute,)).gauges(("lag", "speed"), NOW)
    assert sum(point is not None for point in points) == (age > -KEPT)


def test_sums_and_the_newest_growth() -> None:
    whole = past(90)
    assert whole.total(("lines", "logs", "doubled")) == 90 * 60
    assert whole.total(("nothing",)) is None
    assert whole.grew(("blocks", "edge")) == AT
    assert whole.grew(("nothing",)) is None
    assert whole.since == AT - timedelta(minutes=89)


def test_the_rate_of_now_is_against_a_sample_that_is_old_enough() -> None:
    whole = past(3)
    raw = {(("lines",), "logs counted"): 10 * 60.0 * 3 + 300.0, (("lines",), "logs doubled"): 180.0}
    assert whole.rate(("lines",), raw, NOW + 30) == pytest.approx(10.0)
    assert whole.rate(("lines",), raw, NOW + 10) == pytest.approx((300 + 660) / 70)
    assert FlowPast().rate(("lines",), raw, NOW) is None
    assert whole.rate(("lines",), {}, NOW + 30) is None  # nothing is known of now
    assert whole.rate(("lines",), {(("lines",), "new counted"): 5.0}, NOW + 30) is None  # nor of before


def test_samples_are_read_once_and_what_is_too_old_goes() -> None:
    database, now = sqlite(), datetime.now(UTC)
    history = History(database, lambda: TIERS)
    for number in (3, 2):
        samples.add(database, now - timedelta(minutes=number), figures(3 - number))
    first = history.read()
    assert [minute.grown["blocks", "edge"] for minute in first.minutes] == [120.0]
    samples.add(database, now - timedelta(minutes=1), figures(2))
    assert len(history.read().minutes) == 2
    assert history.read().minutes[0] is first.minutes[0]
    assert history.read().gauges(("lag", "speed"), now.timestamp())[-1] == 1.5
