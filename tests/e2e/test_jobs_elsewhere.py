"""The archiver and the speed layer's driver run on other hosts while lines come.

Each is moved, and its host loses its power; the archiver's freezes before. What the archiver wrote is then
proved line by line, and the chains of its files are whole. What the driver counted is compared with an exact
count. `pytest -s` shows how long each was away.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from sluice.archive import index, verification
from sluice.collection.agent import LOCAL
from sluice.monitoring import figures
from sluice.runtime.settings import Settings
from sluice.storage import listener
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.commits import CommitLog
from sluice_hosts import hosts, placed
from sluice_hosts.emulated import fleet
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import moving
from sluice_lab.access_lines import access_lines
from sluice_lab.waiting import until
from tests.e2e.running import DAYS, PIECE, TIMEOUT_SECONDS, TOPIC, Platform, traffic
from tests.processes import command_line

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAY = DAYS[1]
SECONDS = 300.0
#: Lines that a driver does not count by itself.
MANY = 20_000
UNIT, MEMBER = "archiver:1", "archiver"
DRIVERS_UNIT, DRIVER = "speed_layer:1", "speed_layer"
ROLES: fleet.Roles = {"work1": ("jobs",), "work2": ("jobs",)}


@pytest.fixture(scope="module")
def two(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, EmulatedHost]]:
    """Two enrolled hosts that may have jobs; both jobs are at home again afterwards."""
    settings = platform.settings
    made = fleet.build(tmp_path_factory.mktemp("hosts"), ROLES)
    try:
        for host in made.values():
            host.install_java()
        fleet.switch_on(settings, made, ROLES)
        fleet.enrol(settings, {"work2": made["work2"]})
        fingerprint, first = made["work1"].fingerprint(), listener.read(settings.home) is None
        enrolled = platform.sluice("hosts", "enrol", "work1", "--fingerprint", fingerprint)
        assert enrolled.returncode == 0, enrolled.stderr
        assert ("PostgreSQL starts again" in enrolled.stdout) == first
        yield made
    finally:
        for unit in (UNIT, DRIVERS_UNIT):
            moving.move(settings, unit, LOCAL, print)
        (settings.home / hosts.FILE).unlink(missing_ok=True)
        placed.path_of(settings).unlink(missing_ok=True)
        for host in made.values():
            host.switch_off()
        platform.drain()


def write(platform: Platform, number: int) -> None:
    platform.write(DAY, access_lines(DAY, PIECE, seed=20_000 + number))


def running(host: EmulatedHost, job: str) -> list[psutil.Process]:
    return [each for each in host.processes() if f"jobs/{job}.py" in command_line(each)]


def told(process: psutil.Process) -> dict[str, Any]:
    """The settings in a process's environment that say how to reach PostgreSQL and Kafka."""
    return {name: json.loads(process.environ()[f"SLUICE_{name.upper()}"]) for name in ("postgres", "kafka")}


def has_workers(driver: psutil.Process) -> bool:
    return any("sluice.spark.worker_daemon" in command_line(each) for each in driver.children(recursive=True))


def archived(settings: Settings) -> int:
    """The records in files of the archive."""
    return sum(index.positions(settings, TOPIC).values())


def archives_more(settings: Settings) -> None:
    before = archived(settings)
    until(lambda: archived(settings) > before, what="lines are archived")


def counts_more(settings: Settings) -> None:
    book = CommitLog(engine(settings), TOPIC)
    before = book.newest()
    until(lambda: book.newest() > before, SECONDS, partial(uncounted, settings, before))


def pauses(settings: Settings) -> list[float]:
    """Seconds from the last commit of a driver to the first one of the next, the newest last."""
    t = schema.commits.c
    with engine(settings).connect() as connection:
        found = connection.execute(
            sa.select(t.token, t.committed_at).where(t.topic == TOPIC).order_by(t.seq)
        ).all()
    return [
        (after.committed_at - before.committed_at).total_seconds()
        for before, after in pairwise(found)
        if before.token != after.token
    ]


def is_seen(platform: Platform) -> None:
    """The platform's figures and the lag are those of the driver, wherever it runs."""

    def works() -> bool:
        found = figures.read(platform.settings, time.time()).values["sluice_topic_works"]
        return found.get((DRIVER, TOPIC)) == 1.0

    until(works, what="the figures say that the topic is counted")
    lag = platform.sluice("lag")
    assert lag.returncode == 0, lag.stderr


def uncounted(settings: Settings, commit: int) -> str:
    """What to say if no commit follows this one: how the driver is, where its threads are, and its log."""
    if there := moving.seen(settings, DRIVER):
        with suppress(ProcessLookupError):
            os.kill(there.pid, signal.SIGUSR1)
        time.sleep(5)  # until its shadow has copied what it printed
    progress = (settings.home / "run" / f"{DRIVER}.progress.json").read_text()
    log = (settings.home / "logs" / f"{DRIVER}.log").read_text().splitlines()
    return "\n".join([f"lines are counted after commit {commit}", progress, *log[-150:]])


def arrives(settings: Settings, member: str, host: str, since: str) -> None:
    """Wait until the placement has brought the member there."""
    begun = time.monotonic()
    until(lambda: moving.arrived(settings, member, host), SECONDS, f"{member} runs on {host}")
    print(f"{time.monotonic() - begun:.1f} s after {since} {member} ran on {host}")


def freeze(settings: Settings, host: EmulatedHost, to: str) -> None:
    """Have the archiver's host stand still, and go on. What was left there is stopped then."""
    left = running(host, "archiver")
    host.freeze()
    arrives(settings, MEMBER, to, "its host stood still")
    archives_more(settings)
    assert running(host, "archiver") == left
    host.thaw()
    until(lambda: not running(host, "archiver"), SECONDS, "the archiver that was left behind is stopped")
    assert moving.arrived(settings, MEMBER, to)


def test_the_archiver_moves_among_hosts_and_each_line_is_archived_once(
    platform: Platform, two: dict[str, EmulatedHost], placing: None
) -> None:
    settings = platform.settings
    with traffic(partial(write, platform)) as written:
        moved = platform.sluice("jobs", "move", UNIT, "work2")
        assert moved.returncode == 0, moved.stderr
        listed = platform.sluice("jobs", "list", "--format", "csv")
        assert f"{UNIT},{MEMBER},work2,work2,alive," in listed.stdout
        (there,) = running(two["work2"], "archiver")
        reached = Settings(**told(there))
        assert "sslmode=verify-full" in reached.postgres.url()
        assert reached.kafka.login
        assert reached.kafka.login.user == "host-work2"
        archives_more(settings)

        freeze(settings, two["work2"], "work1")
        two["work1"].switch_off()
        arrives(settings, MEMBER, "work2", "work1 lost its power")
        archives_more(settings)
        two["work1"].switch_on()
        assert written[0]
    platform.drain()
    assert [each.problems for each in verification.verify(settings, TOPIC) if each.problems] == []
    assert [len(running(each, "archiver")) for each in two.values()] == [0, 1]
    platform.assert_online_is_exact(DAY)


def test_the_driver_moves_among_hosts_and_each_line_counts_once(
    platform: Platform, two: dict[str, EmulatedHost], placing: None
) -> None:
    settings = platform.settings
    with traffic(partial(write, platform)):
        moved = platform.sluice("jobs", "move", DRIVERS_UNIT, "work1")
        assert moved.returncode == 0, moved.stderr
        counts_more(settings)
        is_seen(platform)
        platform.write(DAY, access_lines(DAY, MANY, seed=MANY))
        (there,) = running(two["work1"], "speed_layer")
        until(lambda: has_workers(there), SECONDS, "Spark's workers count there, too")

        two["work1"].switch_off()
        arrives(settings, DRIVER, "work2", "work1 lost its power")
        counts_more(settings)
        two["work1"].switch_on()
        begun = time.monotonic()
        back = platform.sluice("jobs", "move", DRIVERS_UNIT, LOCAL)
        assert back.returncode == 0, back.stderr
        counts_more(settings)
        print(f"{time.monotonic() - begun:.1f} s after the order the driver counted here again")
        outward, dead, homeward = pauses(settings)[-3:]
        print(f"nothing was counted for {outward:.1f} s as it moved, {homeward:.1f} s as it moved back,")
        print(f"and {dead:.1f} s when its host lost its power")
    platform.drain()
    assert not [each for host in two.values() for each in running(host, "speed_layer")]
    platform.assert_online_is_exact(DAY)
