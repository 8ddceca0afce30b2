"""The archiver runs on other hosts while lines come: it is moved, and its host loses its power.

What it wrote is then proved line by line, and the chains of its files are whole.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.archive import verification
from sluice.collection import hosts, placed
from sluice.collection.emulated import fleet
from sluice.collection.emulated.host import EmulatedHost
from sluice.collection.hosts import LOCAL
from sluice.elsewhere import moving
from sluice.runtime.settings import Settings
from tests.e2e.running import DAYS, TOPIC, Platform, access_lines
from tests.waiting import until

pytestmark = pytest.mark.e2e

DAY = DAYS[1]
SECONDS = 300.0
UNIT, MEMBER = "archiver:1", "archiver"
ROLES: fleet.Roles = {"work1": ("jobs",), "work2": ("jobs",)}


@pytest.fixture
def two(platform: Platform, tmp_path: Path) -> Iterator[dict[str, EmulatedHost]]:
    """Two enrolled hosts that may have jobs; the archiver is at home again afterwards."""
    settings = platform.settings
    made = fleet.build(tmp_path, ROLES)
    try:
        for host in made.values():
            host.install_java()
        fleet.switch_on(settings, made, ROLES)
        fleet.enrol(settings, {"work2": made["work2"]})
        fingerprint = made["work1"].fingerprint()
        enrolled = platform.sluice("hosts", "enrol", "work1", "--fingerprint", fingerprint)
        assert enrolled.returncode == 0, enrolled.stderr
        assert "PostgreSQL starts again" in enrolled.stdout
        yield made
    finally:
        moving.move(settings, UNIT, LOCAL, print)
        (settings.home / hosts.FILE).unlink(missing_ok=True)
        placed.path_of(settings).unlink(missing_ok=True)
        for host in made.values():
            host.switch_off()
        platform.drain()


@contextmanager
def traffic(platform: Platform) -> Iterator[list[int]]:
    """Write lines all the time; yields how many so far."""
    written, ended = [0], threading.Event()

    def go_on() -> None:
        while not ended.wait(0.1):
            platform.write(DAY, access_lines(DAY, 20, seed=20_000 + written[0]))
            written[0] += 20

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        yield written
    finally:
        ended.set()
        writer.join()


def archivers(host: EmulatedHost) -> list[psutil.Process]:
    return [each for each in host.processes() if "jobs/archiver.py" in each.cmdline()]


def told(process: psutil.Process) -> dict[str, Any]:
    """The settings in a process's environment that say how to reach PostgreSQL."""
    return {"postgres": json.loads(process.environ()["SLUICE_POSTGRES"])}


def archived(settings: Settings) -> int:
    """The lines in files of the archive."""
    return sum(each.lines for each in verification.verify(settings, TOPIC))


def archives_more(settings: Settings) -> None:
    before = archived(settings)
    until(lambda: archived(settings) > before, what="lines are archived")


def arrives(settings: Settings, host: str, since: str) -> None:
    """Wait until the placement has brought the archiver there."""
    begun = time.monotonic()
    until(lambda: moving.arrived(settings, MEMBER, host), SECONDS, f"the archiver runs on {host}")
    print(f"{time.monotonic() - begun:.1f} s after {since} the archiver ran on {host}")


def test_the_archiver_moves_among_hosts_and_each_line_is_archived_once(
    platform: Platform, two: dict[str, EmulatedHost], placing: None
) -> None:
    settings = platform.settings
    with traffic(platform) as written:
        moved = platform.sluice("jobs", "move", UNIT, "work1")
        assert moved.returncode == 0, moved.stderr
        listed = platform.sluice("jobs", "list", "--format", "csv")
        assert f"{UNIT},{MEMBER},work1,work1,alive," in listed.stdout
        (there,) = archivers(two["work1"])
        assert "sslmode=verify-full" in Settings(**told(there)).postgres.url()
        archives_more(settings)

        two["work1"].switch_off()
        arrives(settings, "work2", "work1 lost its power")
        archives_more(settings)
        two["work1"].switch_on()
        assert written[0]
    platform.drain()
    assert [each.problem for each in verification.verify(settings, TOPIC) if each.problem] == []
    assert not archivers(two["work1"])
    platform.assert_online_is_exact(DAY)
