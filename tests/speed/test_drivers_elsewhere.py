"""A driver moves to another host and back: beside another one no topic waits for its start.

One that is left on a silent host counts there until it is stopped, and its successor waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice.collection import enrolment, hosts, ssh
from sluice.collection.emulated.host import EmulatedHost
from sluice.collection.hosts import LOCAL
from sluice.elsewhere import leftovers, moving, places
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.units import jobs
from tests.collection.one_host import emulated
from tests.elsewhere.test_moving import watched
from tests.processes import command_line
from tests.speed.speed_drivers import FIRST, PATIENCE, SECOND, DriversTest
from tests.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800)]

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
def machine(two: DriversTest) -> Iterator[EmulatedHost]:
    """h1, enrolled, which may have jobs."""
    settings = Settings()
    with emulated(settings, two.home / "h1") as made:
        path = settings.home / hosts.FILE
        path.write_text(path.read_text().replace("ssh:", f"roles: [jobs], release: {settings.root}, ssh:"))
        enrolment.enrol(settings, hosts.load(settings)["h1"], made.fingerprint())
        yield made


def began(settings: Settings) -> str:
    """When the first driver's process here was started."""
    record = detached.read(FIRST, settings.home / "run")
    assert record
    return record.started_at


def drivers(machine: EmulatedHost) -> list[psutil.Process]:
    return [each for each in machine.processes() if "jobs/speed_layer.py" in command_line(each)]


def test_topics_are_counted_by_the_other_driver_while_theirs_moves(
    two: DriversTest, machine: EmulatedHost
) -> None:
    settings = Settings()
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: SECOND})
    with watched(settings, SECOND), watched(settings, FIRST):
        with two.lines():
            for topic, driver in ((one, FIRST), (other, SECOND)):
                two.wait(topic, driver)
            for host in ("h1", LOCAL):
                before = began(settings)
                said: list[str] = []
                jobs.move(settings, places.unit(FIRST), host, said.append)
                assert said == [
                    f"{FIRST}: {one} goes to {SECOND}, while it moves",
                    f"{FIRST}: has its topics again: {one}",
                    f"{places.unit(FIRST)}: runs on {host}",
                ]
                assert began(settings) > before
                assert moving.arrived(settings, FIRST, host)
                assert bool(drivers(machine)) is (host == "h1")
                two.wait(one, FIRST)
        two.check()
    pauses, _ = two.gaps(one)
    print("seconds between two writers:", *(f"{each:.2f}" for each in pauses))
    assert len(pauses) == 4, "there and back, twice"
    assert max(pauses) < MOST_SECONDS


def test_a_driver_that_was_left_on_a_silent_host_counts_until_it_is_stopped(
    two: DriversTest, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    settings, unit = Settings(), places.unit(FIRST)
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: FIRST})
    with watched(settings, FIRST) as supervisor:
        with two.lines():
            jobs.move(settings, unit, "h1", print)
            two.wait(one, FIRST)
            (left,) = drivers(machine)
            machine.cut_off()
            until(lambda: moving.seen(settings, FIRST) is None, PATIENCE, "its host is silent")
            jobs.move(settings, unit, LOCAL, print)
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
