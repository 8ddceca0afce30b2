from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st

from sluice.quality.periods import DAY_MS, Period, Periods

DAY = date(2015, 5, 17)
START = int(datetime(2015, 5, 17, tzinfo=UTC).timestamp()) * 1000


def test_minutes_lie_in_the_day() -> None:
    periods = Periods.of(DAY, 60_000)
    assert (periods.inside.start, periods.crossing) == (START, ())
    assert START + DAY_MS - 60_000 in periods.inside
    assert START + DAY_MS not in periods.inside


def test_a_day_is_a_period_of_its_own() -> None:
    periods = Periods.of(DAY, DAY_MS)
    assert list(periods.inside) == [START]
    assert periods.crossing == ()


def test_a_week_is_shared_by_its_days() -> None:
    periods = Periods.of(DAY, 7 * DAY_MS)
    assert not periods.inside
    (week,) = periods.crossing
    assert len(week.days) == 7
    assert DAY in week.days


def test_a_period_across_midnight_belongs_to_both_days() -> None:
    seven_hours = 7 * 3_600_000
    today, tomorrow = Periods.of(DAY, seven_hours), Periods.of(date(2015, 5, 18), seven_hours)
    assert today.crossing[-1] == tomorrow.crossing[0]
    assert today.crossing[-1].days == [DAY, date(2015, 5, 18)]


@given(st.dates(date(1970, 1, 1), date(2100, 1, 1)), st.integers(1, 31 * 86_400))
def test_every_period_that_touches_the_day_is_inside_or_crossing(day: date, seconds: int) -> None:
    length = seconds * 1000
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
    periods = Periods.of(day, length)
    for ms in {begin, begin + DAY_MS // 2, begin + DAY_MS - 1}:
        start = ms // length * length
        crossing = Period(start, start + length) in periods.crossing
        assert crossing != (start in periods.inside)
        assert crossing == (start < begin or start + length > begin + DAY_MS)
