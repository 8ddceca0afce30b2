from datetime import UTC, date, datetime, timedelta

from sluice.runtime.days import is_over, span, stretches, today


def days(*numbers: int) -> list[date]:
    return [date(2015, 5, n) for n in numbers]


def test_stretches_cover_the_days_and_not_the_gaps() -> None:
    assert stretches(days(17, 18, 20, 21, 22, 30)) == [
        (date(2015, 5, 17), date(2015, 5, 18)),
        (date(2015, 5, 20), date(2015, 5, 22)),
        (date(2015, 5, 30), date(2015, 5, 30)),
    ]
    assert stretches([]) == []
    assert stretches(days(1, 2, 3, 4, 5), longest=2) == [
        (date(2015, 5, 1), date(2015, 5, 2)),
        (date(2015, 5, 3), date(2015, 5, 4)),
        (date(2015, 5, 5), date(2015, 5, 5)),
    ]


def test_a_stretch_of_one_day_is_a_day() -> None:
    assert [span(each) for each in stretches(days(1, 3, 4))] == ["2015-05-01", "2015-05-03 to 2015-05-04"]


def test_a_day_is_over_when_the_next_one_begins_in_utc() -> None:
    before, now, after = datetime.now(UTC).date(), today(), datetime.now(UTC).date()
    assert before <= now <= after
    assert [is_over(now + timedelta(days=n), now) for n in (-1, 0, 1)] == [True, False, False]
