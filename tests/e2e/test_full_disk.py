"""A disk of the running platform fills up: intake stops, then the layers; space returns, and all goes on.

The disk is a small one that no store uses, so nothing else is disturbed. The disks of stores are filled to
the last byte in an instance of their own, as `make chaos` does it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.collection import deploy
from sluice.collection.hosting import machine_of
from sluice.quality.audit import kafka_ends
from sluice.runtime.holds import Hold, reason
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.stack.progress import CountingState
from sluice_lab.access_lines import access_lines
from sluice_lab.chaos import file_systems, full_disk
from sluice_lab.chaos.draws import FaultKind
from sluice_lab.chaos.own_instance import INSTANCE
from sluice_lab.chaos.report import JSON_FILE, read
from sluice_lab.waiting import until
from tests.e2e.running import TIMEOUT_SECONDS, TOPIC, Platform

pytestmark = pytest.mark.e2e

DAY = dt.date(2024, 9, 1)
SIZE = 1 << 30  # 256 MiB of it are reserve
#: It draws the three stores, one after another.
SEED = 24
BELOW_RESERVE, LINES, QUIET_SECONDS = 200 << 20, 400, 4.0


@pytest.fixture
def small_disk(platform: Platform, tmp_path: Path) -> Iterator[Path]:
    if why := file_systems.why_none(platform.settings):
        pytest.skip(why)
    folder = platform.settings.home / "data" / "small"
    file_systems.give_file_system(tmp_path / "image", folder, SIZE)
    yield folder
    file_systems.take_file_system(folder)
    folder.rmdir()


def held(platform: Platform) -> set[Hold]:
    return {what for what in Hold if reason(platform.settings.home, what)}


def edges_held(platform: Platform) -> set[bool]:
    edges = [each for each in deploy.agents(platform.settings) if each.tier == "edge"]
    return {machine_of(platform.settings, each).status(each).held for each in edges}


def test_lines_wait_in_the_files_and_then_all_count(platform: Platform, small_disk: Path) -> None:
    settings, filler, lines = platform.settings, small_disk / full_disk.FILL, access_lines(DAY, LINES, 7)
    platform.write(DAY, lines[: LINES // 2])
    platform.drain()
    full_disk.fill(filler, BELOW_RESERVE)
    until(lambda: edges_held(platform) == {True}, what="edges are held")
    assert held(platform) == {Hold.INTAKE}
    before = kafka_ends(settings, TOPIC)
    platform.write(DAY, lines[LINES // 2 :])
    time.sleep(QUIET_SECONDS)
    assert kafka_ends(settings, TOPIC) == before
    full_disk.fill(filler)
    until(lambda: held(platform) == set(Hold), what="the layers are held, too")
    until(
        lambda: jobs.speed_layer(settings).topics[TOPIC].state == CountingState.HELD,
        what="nothing is counted",
    )
    status = platform.sluice("status", "--json")
    shown = json.loads(status.stdout)
    assert status.returncode == 1
    assert set(shown["held"]) == set(Hold)
    assert {tuple(each["folders"]): each["problem"] for each in shown["disks"]}[("data/small",)]
    filler.unlink()
    until(lambda: not held(platform) and edges_held(platform) == {False}, what="all goes on by itself")
    platform.drain()
    platform.assert_online_is_exact(DAY)


@pytest.mark.long
@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_the_disks_of_datanode_kafka_and_postgres_are_full_and_no_line_is_lost(tmp_path: Path) -> None:
    if why := file_systems.why_none(Settings(instance=INSTANCE, home=tmp_path)):
        pytest.skip(why)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    options = ["--faults", "3", "--seed", f"{SEED}", "--kinds", FaultKind.FULL_DISK, "--out", str(tmp_path)]
    command = [sys.executable, "-P", "-m", "sluice_lab.chaos", *options]
    done = subprocess.run(command, env=plain, check=False)
    report = read(tmp_path / JSON_FILE)
    assert report.problems == []
    assert {fault.part for fault in report.faults} == {"datanode", "kafka", "postgres"}
    assert (report.lost, report.doubled, report.differing) == (0, 0, 0), report.verdicts
    assert report.ok
    assert done.returncode == 0
