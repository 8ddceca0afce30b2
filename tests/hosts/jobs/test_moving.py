"""A member goes to another host and back while it is supervised: real processes, and a real SSH server."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.cli.main import app
from sluice.collection.errors import HostUnreachable
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.runtime.supervision import Supervisor
from sluice_hosts import placed
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import far, leftovers, moving, places, succession
from sluice_hosts.links.release import ReleaseError
from sluice_lab.waiting import until
from tests.processes import command_line
from tests.repeated import repeated

pytestmark = [pytest.mark.slow, pytest.mark.long]


def command(settings: Settings, member: str) -> list[str]:
    return places.command(settings, member, places.belongs_on(settings, member))


@contextmanager
def watched(settings: Settings, member: str) -> Iterator[Supervisor]:
    """A member that a thread supervises."""
    argv = functools.partial(command, settings, member)
    both = succession.overlap(settings, member)
    supervisor = Supervisor(member, argv, "me", overlap=both, run=settings.home / "run")
    supervisor.claim()
    try:
        with repeated(lambda: list(supervisor.poll()), 0.05):
            yield supervisor
    finally:
        supervisor.stop()


@pytest.fixture
def supervised(settings: Settings) -> Iterator[Supervisor]:
    """The first archiver."""
    with watched(settings, "archiver") as found:
        yield found


def pids(machine: EmulatedHost) -> list[int]:
    return [each.pid for each in machine.processes() if "jobs/archiver.py" in " ".join(command_line(each))]


def test_a_member_goes_to_another_host_and_back_and_runs_once(
    settings: Settings, machine: EmulatedHost, supervised: Supervisor
) -> None:
    here = detached.read("archiver", settings.home / "run")
    assert here
    until(lambda: "began with" in supervised.log.read_text(), what="it can be told to end")
    moving.move(settings, "archiver:1", "h1", print)
    assert len(pids(machine)) == 1
    until(lambda: supervised.log.read_text().count("began with") == 2, what="it can be told to end there")
    assert not detached.alive(here)
    assert places.runs_on(settings, "archiver") == "h1"
    moving.move(settings, "archiver:1", "h1", print)  # it is there
    moving.move(settings, "archiver:1", "local", print)
    assert not pids(machine)
    assert supervised.log.read_text().count("ended in order") == 2


def test_a_member_that_runs_is_not_stopped_for_a_host_that_cannot_run_it(
    settings: Settings, machine: EmulatedHost, supervised: Supervisor, root: Path
) -> None:
    here = detached.read("archiver", settings.home / "run")
    changed = root / "jobs" / "changed.py"
    changed.touch()  # the platform's processes began before that
    with pytest.raises(ReleaseError, match="bring the checkout there to the platform's commit"):
        moving.move(settings, "archiver:1", "h1", print)
    changed.unlink()
    machine.switch_off()
    with pytest.raises(HostUnreachable):
        moving.move(settings, "archiver:1", "h1", print)
    assert detached.read("archiver", settings.home / "run") == here
    assert detached.alive(here)
    assert places.belongs_on(settings, "archiver") == "local"


def test_a_move_ends_when_another_one_has_overtaken_it(
    settings: Settings, machine: EmulatedHost, supervised: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def overtaken(*_: object) -> bool:
        placed.update(settings, {"archiver:1": "local"})
        return False

    monkeypatch.setattr(moving, "arrived", overtaken)
    with pytest.raises(moving.JobMovedMeanwhile, match="belongs on local now"):
        moving.move(settings, "archiver:1", "h1", print)


def test_what_a_killed_shadow_left_is_stopped_with_the_instance(
    settings: Settings, machine: EmulatedHost
) -> None:
    with watched(settings, "archiver"):
        moving.move(settings, "archiver:1", "h1", print)
    argv = places.command(settings, "archiver", "h1")
    shadow = detached.start("archiver", argv, run=settings.home / "run")
    until(lambda: moving.arrived(settings, "archiver", "h1"), what="it runs there again")
    os.kill(shadow.pid, signal.SIGKILL)
    done = CliRunner().invoke(app, ["reset", "--yes"])
    assert done.exit_code == 0, done.output
    assert "archiver: stopped on h1, where it was left" in done.output
    assert not pids(machine)
    assert not settings.home.exists()


def test_a_member_leaves_a_host_without_power_and_the_host_is_empty_when_it_is_back(
    settings: Settings, machine: EmulatedHost, supervised: Supervisor
) -> None:
    moving.move(settings, "archiver:1", "h1", print)
    machine.switch_off()
    moving.move(settings, "archiver:1", "local", print)
    assert places.runs_on(settings, "archiver") == "local"
    machine.switch_on()
    assert not pids(machine)


def test_a_member_that_ran_on_while_its_host_was_cut_off_is_stopped(
    settings: Settings, machine: EmulatedHost, supervised: Supervisor
) -> None:
    moving.move(settings, "archiver:1", "h1", print)
    machine.cut_off()
    moving.move(settings, "archiver:1", "local", print)
    (left,) = pids(machine)
    machine.reconnect()

    def gone() -> bool:
        leftovers.stop(settings, print)
        return not pids(machine)

    until(gone, what=f"pid {left} is stopped")


def test_a_host_that_is_asked_for_its_jobs_while_it_is_away_says_nothing(
    settings: Settings, machine: EmulatedHost
) -> None:
    from sluice_hosts import hosts

    host = hosts.load(settings)["h1"]
    assert far.there(settings, host) == {}
    machine.switch_off()
    with pytest.raises(HostUnreachable):
        far.there(settings, host)
    leftovers.stop(settings, print)  # others are asked, and it is asked again
