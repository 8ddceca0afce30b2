"""Emulated hosts are listed, switched on and enrolled, and end with the process that switched them on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice.runtime.settings import ROOT, Settings
from sluice_hosts import hosts
from sluice_hosts.emulated import fleet, power
from sluice_hosts.emulated.host import EmulatedHost, HostDied
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from sluice_lab.waiting import until

pytestmark = pytest.mark.slow

ROLES: fleet.Roles = {"h1": ("edge",), "h2": ("edge", "collector")}
#: Switches a host on, starts a process there, and waits for its end.
KEEPER = """
import subprocess, sys, time
from pathlib import Path
from sluice_hosts.emulated import power
from sluice_hosts.emulated.host import EmulatedHost
home = Path(sys.argv[1])
EmulatedHost(home, "127.0.1.1").switch_on()
subprocess.Popen(["/bin/sleep", "1000"], env={power.HOME: str(home)}, start_new_session=True)
(home / "ready").touch()
time.sleep(1000)
"""


@pytest.fixture
def two(settings: Settings, tmp_path: Path) -> Iterator[dict[str, EmulatedHost]]:
    made = fleet.build(tmp_path, ROLES)
    for host in made.values():
        host.program("java", "echo 'openjdk version \"17.0.9\"'")
    try:
        fleet.switch_on(settings, made, ROLES)
        yield made
    finally:
        for host in made.values():
            host.switch_off()


def test_they_are_enrolled_each_with_its_own_address_and_home(
    settings: Settings, two: dict[str, EmulatedHost]
) -> None:
    fleet.enrol(settings, two)
    known = hosts.load(settings)
    assert {name: known[name].roles for name in two} == ROLES
    for name, host in two.items():
        assert enrolment.state(settings, known[name]) == "yes"
        said = enrolment.link(settings, known[name]).run("sh", "-c", "echo $HOME").strip()
        assert said == str(host.home)
    assert two["h1"].address != two["h2"].address


def test_one_that_is_off_has_no_process_and_cannot_be_cut_off(two: dict[str, EmulatedHost]) -> None:
    assert two["h1"].processes()
    two["h1"].switch_off()
    assert not two["h1"].processes()
    assert two["h2"].processes()
    with pytest.raises(HostDied, match="is off"):
        two["h1"].cut_off()


def test_one_that_is_frozen_answers_nobody_and_goes_on_where_it_stood(
    settings: Settings, two: dict[str, EmulatedHost]
) -> None:
    fleet.enrol(settings, two)
    frozen = two["h1"]
    link = enrolment.link(settings, hosts.load(settings)["h1"])
    link.run("sh", "-c", "while sleep 0.05; do echo >> ticks; done > /dev/null 2>&1 &")
    ticks = frozen.home / "ticks"
    until(ticks.exists)
    frozen.freeze()
    before = ticks.read_text()
    assert {each.status() for each in frozen.processes()} == {psutil.STATUS_STOPPED}
    with pytest.raises(TimeoutError):
        ssh.greets(frozen.address, frozen.port)
    assert ticks.read_text() == before
    assert ssh.greets(two["h2"].address, two["h2"].port)
    frozen.thaw()
    until(lambda: ticks.read_text() != before)
    assert ssh.greets(frozen.address, frozen.port)
    frozen.freeze()
    frozen.switch_off()
    assert not frozen.processes()
    with pytest.raises(HostDied, match="is off"):
        frozen.freeze()


def test_they_end_with_the_process_that_switched_them_on(tmp_path: Path) -> None:
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER, str(tmp_path)], cwd=ROOT)
    until((tmp_path / "ready").exists)
    assert len(power.processes(tmp_path)) == 2
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.wait()
    until(lambda: not power.processes(tmp_path), what="all of the host's processes end")
