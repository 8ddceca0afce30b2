"""How time is cut into periods, in zones that change their clocks in every possible way."""

from __future__ import annotations

import datetime as dt
import zoneinfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tasks.period import BadPeriod, Period, parse_period
from sluice.tasks.zones import BadZone, Offsets, instants

UTC = dt.UTC
ZONES = (
    "UTC",
    "Europe/Berlin",  # an hour at 01:00 UTC
    "Australia/Lord_Howe",  # half an hour
    "America/Sao_Paulo",  # at midnight, until 2019
    "Asia/Kathmandu",  # 5:45, and 5:30 before 1986
    "Pacific/Apia",  # had no 30 December 2011
    "Pacific/Kwajalein",  # had no 21 August 1993
    "Africa/Monrovia",  # 44:30 until 1972
    "America/Havana",  # from 01:00 back to 00:00: midnight is shown twice
    "America/St_Johns",  # from 00:01 back to 23:01, until 2011
    "Africa/Casablanca",  # winter time in summer, which follows the moon
    "Antarctica/Troll",  # two hours
)
HOUR, DAY = 3_600_000, 86_400_000
LATEST = int(dt.datetime(9998, 12, 31, tzinfo=UTC).timestamp() * 1000)

seconds = st.sampled_from(
    [1, 7, 60, 420, 900, 1800, 2700, 3600, 3601, 5400, 7200, 86400, 7 * 86400, 31 * 86400]
)
recent = st.integers(0, int(dt.datetime(2045, 1, 1, tzinfo=UTC).timestamp() * 1000))
moments = st.one_of(recent, st.integers(0, LATEST))


def ms(*local: int, zone: str = "UTC", fold: int = 0) -> int:
    at = dt.datetime(*local, tzinfo=zoneinfo.ZoneInfo(zone), fold=fold)  # type: ignore[misc,arg-type]
    return int(at.timestamp() * 1000)


def changes(zone: str) -> list[int]:
    """Instants around which the zone's clock changes."""
    offsets = Offsets.around(zone, np.arange(0, ms(2045, 1, 1), 300 * DAY, dtype=np.int64))
    return offsets.at[1:].tolist() or [0]


def around(instants: list[int]) -> st.SearchStrategy[int]:
    by = st.integers(-2 * DAY, 2 * DAY)
    return st.builds(lambda at, by: max(at + by, 0), st.sampled_from(instants), by)


near = st.sampled_from(ZONES).flatmap(
    lambda zone: st.tuples(
        st.just(zone),
        st.one_of(
            moments,
            st.builds(
                lambda at, by: max(at + by, 0), st.sampled_from(changes(zone)), st.integers(-2 * DAY, 2 * DAY)
            ),
        ),
    )
)


@pytest.mark.slow
@given(seconds, near)
def test_every_instant_lies_in_exactly_one_period(length: int, place: tuple[str, int]) -> None:
    zone, at = place
    period = Period(length, zone)
    start = period.start(at)
    end = period.end(start)
    assert start <= at < end
    assert period.start(start) == start  # a period begins with its own first instant
    assert period.start(end - 1) == start
    assert period.start(end) == end  # and the next one where it ends
    assert period.start(start - 1) < start


@pytest.mark.slow
@given(seconds, near, st.lists(st.integers(-3 * DAY, 3 * DAY), max_size=20))
def test_starts_increase_with_the_instants(length: int, place: tuple[str, int], by: list[int]) -> None:
    zone, at = place
    period = Period(length, zone)
    events = np.sort(np.array([max(at + b, 0) for b in (*by, 0)], np.int64))
    starts = period.starts(events)
    assert (np.diff(starts) >= 0).all()
    assert starts.tolist() == [period.start(int(e)) for e in events]  # whatever else is in the batch
    assert period.ends(starts).tolist() == [period.end(int(s)) for s in starts]


@given(seconds, near)
def test_periods_up_to_an_hour_are_never_longer(length: int, place: tuple[str, int]) -> None:
    zone, at = place
    period = Period(min(length, 3600), zone)
    start = period.start(at)
    assert 0 < period.end(start) - start <= period.ms


@given(near)
def test_the_wall_clock_is_zoneinfos(place: tuple[str, int]) -> None:
    zone, at = place
    shown = Offsets.around(zone, np.array([at])).local(np.array([at]))[0]
    there = dt.datetime.fromtimestamp(at // 1000, zoneinfo.ZoneInfo(zone))
    assert shown - at == round(there.utcoffset().total_seconds()) * 1000  # type: ignore[union-attr]


@given(near)
def test_a_day_begins_when_the_local_date_does(place: tuple[str, int]) -> None:
    zone, at = place
    local = dt.datetime.fromtimestamp(at // 1000, zoneinfo.ZoneInfo(zone))
    start = dt.datetime.fromtimestamp(Period(86400, zone).start(at) // 1000, zoneinfo.ZoneInfo(zone))
    if zone == "America/St_Johns" and start.date() != local.date():
        assert local.hour == 23  # from 00:01 back to 23:01, but the new day goes on
    else:
        assert start.date() == local.date()


@pytest.mark.parametrize(
    ("day", "hours"), [((2024, 3, 31), 23), ((2024, 10, 27), 25), ((2024, 6, 1), 24), ((1980, 4, 6), 23)]
)
def test_a_day_in_berlin_has_23_24_or_25_hours(day: tuple[int, int, int], hours: int) -> None:
    period = Period(86400, "Europe/Berlin")
    start = ms(*day, zone="Europe/Berlin")
    assert period.start(start + 5 * HOUR) == start
    assert period.end(start) - start == hours * HOUR


def test_an_hour_that_is_shown_twice_is_two_periods() -> None:
    period = Period(3600, "Europe/Berlin")
    first = ms(2024, 10, 27, 2, 30, zone="Europe/Berlin")
    again = ms(2024, 10, 27, 2, 30, zone="Europe/Berlin", fold=1)
    assert period.start(again) - period.start(first) == HOUR


def test_two_hours_go_by_the_wall_clock() -> None:
    period = Period(7200, "Europe/Berlin")
    two = ms(2024, 10, 27, 2, zone="Europe/Berlin")
    assert (period.start(two), period.end(two)) == (two, two + 3 * HOUR)  # 02:00, 02:00 again, 03:00


def test_half_an_hour_of_summer_time_begins_an_hour_again() -> None:
    period, zone = Period(3600, "Australia/Lord_Howe"), "Australia/Lord_Howe"
    one = ms(2024, 4, 7, 1, zone=zone)  # 02:00 becomes 01:30
    lengths = []
    for start in (one, period.end(one), period.end(period.end(one))):
        lengths.append((period.end(start) - start) / HOUR)
    assert lengths == [1, 0.5, 1]


def test_a_midnight_that_was_skipped_begins_an_hour_later() -> None:
    zone = "America/Sao_Paulo"
    period = Period(86400, zone)
    noon = ms(2018, 11, 4, 12, zone=zone)
    assert period.start(noon) == ms(2018, 11, 4, 1, zone=zone)
    assert period.end(period.start(noon)) - period.start(noon) == 23 * HOUR


def test_a_date_that_never_was_has_no_period() -> None:
    zone = "Pacific/Apia"
    period = Period(86400, zone)
    thursday = ms(2011, 12, 29, zone=zone)
    saturday = period.end(thursday)
    assert saturday == ms(2011, 12, 31, zone=zone)
    assert saturday - thursday == DAY


def test_a_month_in_utc_is_counted_from_the_epoch() -> None:
    period = Period(31 * 86400)
    assert period.start(ms(1970, 2, 1, 1)) == ms(1970, 2, 1)
    assert period.start(-1) == -period.ms


@pytest.mark.slow
def test_a_million_lines_and_every_year_there_is() -> None:
    events = np.linspace(0, LATEST, 1_000_000).astype(np.int64)
    starts = Period(86400, "Europe/Berlin").starts(events)
    assert (starts <= events).all()
    assert (events - starts < 25 * HOUR).all()


def test_no_lines() -> None:
    nothing = np.zeros(0, np.int64)
    for zone in ("UTC", "Europe/Berlin"):
        assert len(Period(60, zone).starts(nothing)) == len(Period(60, zone).ends(nothing)) == 0
        assert len(instants(zone, nothing)) == 0


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        ((2024, 6, 1, 12), (2024, 6, 1, 10)),
        ((2024, 3, 31, 2, 30), (2024, 3, 31, 1)),  # skipped: the end of the gap
        ((2024, 10, 27, 2, 30), (2024, 10, 27, 0, 30)),  # shown twice: the earlier
        ((2024, 10, 27, 3), (2024, 10, 27, 2)),
    ],
)
def test_a_local_time_as_an_instant(local: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert instants("Europe/Berlin", np.array([ms(*local)])).tolist() == [ms(*expected)]


@pytest.mark.parametrize(
    "zone", ["", "Berlin", "europe/berlin", "../etc/passwd", "/etc/localtime", "UTC\x00"]
)
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(BadZone, match="use a name of the IANA database"):
        Period(60, zone)


@pytest.mark.parametrize("length", [0, -1, 31 * 86400 + 1])
def test_a_length_out_of_bounds_is_refused(length: int) -> None:
    with pytest.raises(BadPeriod, match="a period lasts from"):
        Period(length)


@pytest.mark.parametrize(
    "text", ["", "60", "s", "1 h", "1.5h", "-1s", "1w", "1H", "١s", "0s", "32d", "99999d"]
)
def test_a_text_that_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(BadPeriod):
        parse_period(text)
