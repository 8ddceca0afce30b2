"""When a disk is full, by a trend that what comes and goes does not bend; and the alerts."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.monitoring.disk_trend import DAY, FREE, HOUR, POINTS, SOURCE, DiskTrends, seconds_left, slope
from sluice.runtime.holds import Hold, hold, release
from sluice.runtime.settings import Settings
from sluice.storage.tables import samples
from sluice.storage.tables.alerts import open_alerts
from tests.stack.file_systems import GIB, FakeDisks
from tests.tasks.database import sqlite

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def falling(hours: float, a_day: float, free: float, step: float = 60.0) -> list[tuple[float, float]]:
    """Points up to now of a disk that loses so many GiB a day; free: now, in GiB."""
    count = int(hours * HOUR / step)
    return [(-n * step, (free + a_day * n * step / DAY) * GIB) for n in range(count, -1, -1)]


def test_a_steady_trend_is_exact() -> None:
    points = falling(24, 10, 40)
    assert slope(points) * DAY == pytest.approx(-10 * GIB)
    assert seconds_left(points, 40 * GIB) == pytest.approx(4 * DAY)


def test_what_comes_and_goes_does_not_bend_it() -> None:
    """A compaction takes 30 GiB for two hours of the day, the newest ones among them."""
    points = [(at, free - (30 * GIB if at > -2 * HOUR else 0)) for at, free in falling(24, 10, 40)]
    assert slope(points) * DAY == pytest.approx(-10 * GIB, rel=0.25)


def test_what_fills_within_hours_is_seen_in_the_last_hour() -> None:
    minutes = range(44, -1, -1)  # half a GiB a minute, after a day at 100 GiB
    points = falling(24, 0, 100)[:-45] + [(-60.0 * n, (77.5 + n / 2) * GIB) for n in minutes]
    left = seconds_left(points, 77.5 * GIB)
    assert left is not None
    assert 2 * HOUR < left < 5 * HOUR
    fast = falling(0.9, 24 * 20, 40)  # 20 GiB an hour
    assert seconds_left(fast, 40 * GIB) == pytest.approx(2 * HOUR)


@pytest.mark.parametrize(
    "points",
    [
        [],
        falling(0, 10, 40),
        falling(0.2, 500, 40),  # too little was seen
        falling(24, 0, 40),
        falling(24, -5, 40),  # it empties
        falling(24, 10, 100),  # full in ten days
        falling(0.9, 10, 40),  # of an hour nothing is said of days
    ],
)
def test_nothing_is_said_of_what_is_far_off_or_not_known(points: list[tuple[float, float]]) -> None:
    assert seconds_left(points, points[-1][1] if points else GIB) is None


def test_few_points_are_compared() -> None:
    points = falling(24, 10, 40)
    pairs = list(itertools.combinations(points[::-1][:: len(points) // POINTS], 2))
    assert len(pairs) < 1_500


def test_the_alert_says_when_and_which_and_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, settings = sqlite(), Settings(instance="test", home=tmp_path)
    found = FakeDisks(monkeypatch)
    found.are(home=500, kafka=30)
    for hours in range(20, 0, -1):
        free = [[{"disk": "home"}, 500 * GIB], [{"disk": "data/kafka"}, (30 + hours / 2) * GIB]]
        samples.add(database, NOW - timedelta(hours=hours), {FREE: free})
    trends = DiskTrends(settings)
    trends.tell(database, NOW)
    (alert,) = open_alerts(database, SOURCE)
    assert alert.name == "filling: data/kafka"
    for part in ("30.00 of 100.0 GiB", "full in about 2.5 days", "below 2.00 GiB", "make space"):
        assert part in alert.message
    found.are(home=500, kafka=95)
    for minute in range(30):  # space returned, and nothing fills any more
        trends.tell(database, NOW + timedelta(minutes=minute))
    assert open_alerts(database, SOURCE) == []


def test_a_hold_is_an_alert_while_it_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, settings = sqlite(), Settings(instance="test", home=tmp_path)
    FakeDisks(monkeypatch).are(home=1)
    trends = DiskTrends(settings)
    hold(tmp_path, Hold.INTAKE, "the disk of home has less than 2 GiB left")
    trends.tell(database, NOW)
    (alert,) = open_alerts(database, SOURCE)
    assert alert.name == "held: intake"
    assert alert.message.startswith(
        "no lines are taken from the front-ends, where they wait in the files: the"
    )
    release(tmp_path, Hold.INTAKE)
    trends.tell(database, NOW)
    assert open_alerts(database, SOURCE) == []
