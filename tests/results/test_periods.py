from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results.periods import DAY_MS, Interval, Periods
from sluice.tasks.period import Period

DAY = date(2015, 5, 17)
START = int(datetime(2015, 5, 17, tzinfo=UTC).timestamp()) * 1000


def test_minutes_lie_in_the_day() -> None:
    periods = Periods.of(DAY, Period(60))
    assert (periods.inside.start, periods.crossing) == (START, ())
    assert START + DAY_MS - 60_000 in periods.inside
    assert START + DAY_MS not in periods.inside


def test_a_day_is_a_period_of_its_own() -> None:
    periods = Periods.of(DAY, Period(86_400))
    assert START in periods.inside
    assert len(periods.inside) == 1
    assert periods.crossing == ()


def test_a_week_is_shared_by_its_days() -> None:
    periods = Periods.of(DAY, Period(7 * 86_400))
    assert not periods.inside
    (week,) = periods.crossing
    assert len(week.days) == 7
    assert DAY in week.days


def test_a_period_across_midnight_belongs_to_both_days() -> None:
    seven_hours = Period(7 * 3600)
    today, tomorrow = Periods.of(DAY, seven_hours), Periods.of(date(2015, 5, 18), seven_hours)
    assert today.crossing[-1] == tomorrow.crossing[0]
    assert today.crossing[-1].days == [DAY, date(2015, 5, 18)]


@given(st.dates(date(1970, 1, 1), date(2100, 1, 1)), st.integers(1, 31 * 86_400))
def test_every_period_that_touches_the_day_is_inside_or_crossing(day: date, seconds: int) -> None:
    length = seconds * 1000
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    periods = Periods.of(day, Period(seconds))
    for ms in {begin, begin + DAY_MS // 2, begin + DAY_MS - 1}:
        start = ms // length * length
        crossing = Interval(start, start + length) in periods.crossing
        assert crossing != (start in periods.inside)
        assert crossing == (start < begin or start + length > begin + DAY_MS)


def test_a_day_in_berlin_is_shared_by_two_days_of_the_archive() -> None:
    periods = Periods.of(date(2026, 7, 2), Period(86_400, "Europe/Berlin"))
    assert not periods.inside
    first, second = periods.crossing
    assert first.end == second.start == int(datetime(2026, 7, 2, 22, tzinfo=UTC).timestamp()) * 1000
    assert first.days == [date(2026, 7, 1), date(2026, 7, 2)]


@pytest.mark.slow
@given(
    st.dates(date(1971, 1, 1), date(2037, 1, 1)),
    st.sampled_from([60, 900, 3600, 7200, 10_800, 43_200, 86_400, 7 * 86_400]),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_in_a_zone_every_instant_of_the_day_is_in_one_of_its_periods(
    day: date, seconds: int, zone: str
) -> None:
    span = Period(seconds, zone)
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    periods = Periods.of(day, span)
    for ms in range(begin, begin + DAY_MS, DAY_MS // 97):
        start = span.start(ms)
        whole = begin <= start and span.end(start) <= begin + DAY_MS
        assert (start in periods.inside) == whole
        assert (Interval(start, span.end(start)) in periods.crossing) == (not whole)
