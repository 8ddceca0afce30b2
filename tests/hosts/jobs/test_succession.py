"""A driver that moves runs until the next one can count, whatever is killed meanwhile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.runtime import detached, successor
from sluice.runtime.settings import ROOT, Settings
from sluice.runtime.supervision import Supervisor
from sluice.stack import jobs
from sluice.stack.progress import SpeedLayerProgress, progress_file, read
from sluice_hosts import placed
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import job_state, leftovers, moving, places, succession
from sluice_lab.waiting import until
from tests.hosts.jobs.test_moving import watched
from tests.processes import command_line

pytestmark = [pytest.mark.slow, pytest.mark.long]

DRIVER, UNIT = "speed_layer", "speed_layer:1"
NEXT = successor.name_of(DRIVER)
#: A driver that can count as soon as a file is gone.
JOB = f"""
import os, signal, sys, time
sys.path.insert(0, {str(ROOT / "include")!r})
from pathlib import Path
from sluice.runtime.settings import get_settings
from sluice.speed.progress import SpeedProgress
from sluice.stack.progress import DriverState, progress_file
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
given = sys.argv[sys.argv.index("--progress") + 1] if "--progress" in sys.argv else None
progress = SpeedProgress(Path(given) if given else progress_file(get_settings(), "speed_layer"))
progress.state(DriverState.STARTING)
while not stopped:
    if not Path("HOLD").exists():
        progress.state(DriverState.RUNNING)
    time.sleep(0.05)
"""


@pytest.fixture
def hold(root: Path) -> Path:
    """No driver that starts can count before this file is gone."""
    path = root.parent / "hold"
    path.touch()
    (root / "jobs" / f"{DRIVER}.py").write_text(JOB.replace("HOLD", str(path)))
    return path


@pytest.fixture
def driver(settings: Settings, machine: EmulatedHost, hold: Path) -> Iterator[Supervisor]:
    """It counts here."""
    hold.unlink()
    with watched(settings, DRIVER) as found:
        until(lambda: said(settings, DRIVER).state == "running", what="it counts here")
        hold.touch()
        yield found


def said(settings: Settings, name: str) -> SpeedLayerProgress:
    return read(progress_file(settings, name), SpeedLayerProgress)


def there(machine: EmulatedHost) -> list[int]:
    return [each.pid for each in machine.processes() if "jobs/speed_layer.py" in " ".join(command_line(each))]


def waits(settings: Settings) -> moving.RunningMember:
    """Wait until the successor runs, and cannot count yet."""

    def so() -> moving.RunningMember | None:
        found = moving.seen(settings, NEXT)
        return found if found and said(settings, NEXT).pid == found.pid else None

    found = until(so, what="the successor starts")
    assert found
    assert said(settings, NEXT).state == "starting"
    return found


def after(settings: Settings, before: moving.RunningMember, kill: Callable[[], None]) -> moving.RunningMember:
    """The next process of the successor, after it was killed."""
    kill()
    until(lambda: moving.seen(settings, NEXT) != before, what="it is missed")
    return waits(settings)


def shadow(settings: Settings, name: str) -> int:
    record = detached.read(name, settings.home / "run")
    assert record
    return record.pid


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_a_driver_counts_here_until_the_next_one_can_count_there(
    settings: Settings, machine: EmulatedHost, driver: Supervisor, hold: Path
) -> None:
    here = moving.seen(settings, DRIVER)
    placed.update(settings, {UNIT: "h1"})
    first = waits(settings)
    leftovers.stop(settings, print)
    assert there(machine) == [first.pid], "it is no leftover"
    assert job_state.known(settings, DRIVER), "the driver here is told that another one may have a topic"
    listed = CliRunner().invoke(app, ["jobs", "list", "--format", "csv"])
    assert f"{UNIT},{DRIVER},h1,local,alive," in listed.stdout
    assert f"{UNIT},{NEXT},h1,h1,alive,{first.pid}" in listed.stdout

    killed(shadow(settings, NEXT))
    until(lambda: driver.log.read_text().count("/jobs/shadow.py") > 1, what="another shadow starts")
    assert waits(settings) == first, "it adopts what the one before has started"
    second = after(settings, first, lambda: killed(first.pid))
    assert moving.seen(settings, DRIVER) == here
    assert said(settings, DRIVER).pid == shadow(settings, DRIVER), "it speaks for itself"

    hold.unlink()
    until(lambda: moving.arrived(settings, DRIVER, "h1"), what="the next one takes its place")
    assert moving.seen(settings, DRIVER) == second
    until(lambda: said(settings, DRIVER).pid == second.pid, what="its progress is that of the driver")
    until(lambda: said(settings, NEXT) == SpeedLayerProgress(), what="nothing is said of a successor")
    assert there(machine) == [second.pid]
    assert detached.read(NEXT, settings.home / "run") is None


def test_a_driver_that_dies_while_the_next_one_starts_is_succeeded_at_once(
    settings: Settings,
    machine: EmulatedHost,
    driver: Supervisor,
    hold: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(succession, "UNKNOWN_SECONDS", 0.0)
    here = shadow(settings, DRIVER)
    placed.update(settings, {UNIT: "h1"})
    first = waits(settings)
    killed(here)
    until(lambda: moving.arrived(settings, DRIVER, "h1"), what="the next one takes its place")
    assert moving.seen(settings, DRIVER) == first
    hold.unlink()
    until(lambda: said(settings, DRIVER).state == "running", what="it counts there")

    hold.touch()
    placed.update(settings, {UNIT: "local"})
    before = waits(settings)
    assert before.host == "local"
    second = after(settings, before, lambda: killed(before.pid))
    assert there(machine) == [first.pid], "it counts until then"
    machine.cut_off()
    until(lambda: moving.arrived(settings, DRIVER, "local"), what="nobody waits for a silent host")
    assert moving.seen(settings, DRIVER) == second
    machine.reconnect()
    until(lambda: not leftovers.stop(settings, print) and not there(machine), what="it is stopped")
    hold.unlink()
    until(lambda: said(settings, DRIVER).pid == second.pid, what="it speaks for itself")


def test_a_driver_that_is_to_stay_loses_its_successor_and_stays(
    settings: Settings, machine: EmulatedHost, driver: Supervisor
) -> None:
    here = moving.seen(settings, DRIVER)
    placed.update(settings, {UNIT: "h1"})
    waits(settings)
    placed.update(settings, {UNIT: "local"})
    until(lambda: places.runs_on(settings, NEXT) is None, what="the successor is stopped")
    until(lambda: not leftovers.stop(settings, print) and not there(machine), what="its job is stopped, too")
    assert moving.seen(settings, DRIVER) == here


def test_an_archiver_has_no_successor(settings: Settings) -> None:
    assert succession.overlap(settings, "archiver-2") is None


def test_what_is_said_of_a_successor_is_no_members(settings: Settings) -> None:
    """Others ask for the members, and for their progress, by the files that are there."""
    for member in (DRIVER, f"{DRIVER}-2"):
        name = successor.name_of(member)
        progress_file(settings, name).write_text(json.dumps({"state": "running", "updated_at": 1.0}))
        (settings.home / "run" / f"{name}.json").write_text("{}")
    assert jobs.driver_files(settings) == {}
    assert places.members(settings) == []
    for path in (settings.home / "run").glob("next.*"):
        path.unlink()
