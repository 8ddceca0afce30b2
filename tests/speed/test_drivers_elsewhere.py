"""A driver moves to another host and back: no topic waits for its start, and each line counts once.

One that is left on a silent host counts there until it is stopped, and its successor waits.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from sluice.collection.agent import LOCAL
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice_hosts import placed
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import leftovers, moving, places
from sluice_hosts.links import ssh
from sluice_lab.waiting import until
from tests.hosts.jobs.test_moving import watched
from tests.hosts.one_host import with_jobs
from tests.processes import command_line
from tests.speed.speed_drivers import FIRST, PATIENCE, DriversTest

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1800)]

#: So long a topic that moves may be counted by nobody.
MOST_SECONDS = 10.0


@pytest.fixture
def two(stack: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DriversTest]:
    """Two topics; their drivers are supervised, and are started with this process's environment."""
    test = DriversTest(stack, tmp_path)
    # Kafka is the stack's, and knows no user of this test's host.
    for name, value in test.environment(SLUICE_EXTERNAL='["kafka"]').items():
        monkeypatch.setenv(name, value)
    yield test
    test.close()


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of crash points, for the drivers here and there."""
    path = tmp_path / "faults"
    path.mkdir()
    monkeypatch.setenv("SLUICE_FAULTS", str(path))
    return path


@pytest.fixture
def machine(two: DriversTest, faults: Path) -> Iterator[EmulatedHost]:
    """h1, enrolled, which may have jobs."""
    with with_jobs(Settings(), two.home / "h1", faults) as made:
        yield made


def began(settings: Settings) -> str:
    """When the first driver's process here was started."""
    record = detached.read(FIRST, settings.home / "run")
    assert record
    return record.started_at


def drivers(machine: EmulatedHost) -> list[psutil.Process]:
    return [each for each in machine.processes() if "jobs/speed_layer.py" in command_line(each)]


def test_a_driver_counts_until_the_next_one_can_and_its_topic_waits_for_no_start(
    two: DriversTest, machine: EmulatedHost
) -> None:
    settings = Settings()
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: FIRST}, "ann")
    with watched(settings, FIRST):
        with two.lines():
            two.wait(one, FIRST)
            started = list[datetime]()
            for host in ("h1", LOCAL):
                before = began(settings)
                moving.move(settings, places.unit(FIRST), host, print)
                assert began(settings) > before
                started.append(datetime.fromisoformat(began(settings)))
                assert moving.arrived(settings, FIRST, host)
                until(lambda: bool(drivers(machine)) is (host == "h1"), PATIENCE)  # noqa: B023
                for topic in (one, other):
                    two.wait(topic, FIRST)
        two.check()
    for test in two.topics:
        stopped = [
            before.committed_at for before, after in pairwise(test.commits()) if before.token != after.token
        ]
        assert len(stopped) == len(started) == 2
        assert all(then > at for then, at in zip(stopped, started, strict=True)), (
            "it counts while the next one starts"
        )
    pauses = [each for topic in (one, other) for each in two.gaps(topic)[0]]
    print("seconds between two writers:", *(f"{each:.2f}" for each in pauses))
    assert max(pauses) < MOST_SECONDS


@pytest.mark.usefixtures("machine")
def test_each_line_counts_once_whichever_driver_or_mover_is_killed_while_one_moves(
    two: DriversTest, faults: Path
) -> None:
    """Two points are those of the driver that stops, and two those of the next one."""
    settings, unit = Settings(), places.unit(FIRST)
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: FIRST}, "ann")
    with watched(settings, FIRST):
        with two.lines():
            two.wait(one, FIRST)
            for number, point in enumerate(
                ("topic_stopped", "topic_locked", "topic_released", "topic_taken")
            ):
                (faults / point).touch()
                host = LOCAL if number % 2 else "h1"
                mover = subprocess.Popen(
                    [sys.executable, "-m", "sluice.cli.main", "jobs", "move", unit, host]
                )
                until(lambda: placed.read(settings).get(unit) == host, PATIENCE, "it moves")  # noqa: B023
                mover.kill()
                mover.wait()
                until(lambda: not (faults / point).exists(), PATIENCE, f"one dies at {point}")  # noqa: B023
                until(lambda: moving.arrived(settings, FIRST, host), PATIENCE, f"it runs on {host}")  # noqa: B023
                for topic in (one, other):
                    two.wait(topic, FIRST)
        two.check()


def test_a_driver_that_was_left_on_a_silent_host_counts_until_it_is_stopped(
    two: DriversTest, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    settings, unit = Settings(), places.unit(FIRST)
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: FIRST}, "ann")
    with watched(settings, FIRST) as supervisor:
        with two.lines():
            moving.move(settings, unit, "h1", print)
            two.wait(one, FIRST)
            (left,) = drivers(machine)
            machine.cut_off()
            until(lambda: moving.seen(settings, FIRST) is None, PATIENCE, "its host is silent")
            moving.move(settings, unit, LOCAL, print)
            waits = f"topic {one}: another driver has not released it: it is tried again"
            until(lambda: waits in supervisor.log.read_text(), PATIENCE, "the next one waits")
            two.wait(one, FIRST)
            assert drivers(machine) == [left]
            machine.reconnect()
            until(
                lambda: not leftovers.stop(settings, print) and not drivers(machine),
                PATIENCE,
                "it is stopped",
            )
            two.wait(one, FIRST)
        two.check()
