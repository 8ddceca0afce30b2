"""An agent on another host: started once, adopted, stopped; a host that is away is unknown, not dead.

Its program is a stand-in that only runs. `tests/e2e/test_hosts.py` has the real one.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sluice.collection import deploy_plan, health, lifecycle
from sluice.collection.agent import Agent, folder
from sluice.collection.hosting import machine_of
from sluice.quality.file_accounts import NOTHING, account, front_end_files
from sluice.quality.missing_lines import CollectedFile, missing_lines
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from sluice_lab.waiting import until
from tests.processes import command_line

pytestmark = pytest.mark.slow

PROGRAM = "sleep"
SECONDS = 60.0


def there(settings: Settings) -> Path:
    """The instance's folder on the host."""
    return Path(enrolment.enrolled(settings, hosts.load(settings)["h1"]).directory)


def remote_pid(settings: Settings, far: Agent) -> int:
    """The agent's pid as its host says; 0 while the host does not answer."""
    try:
        return machine_of(settings, far).status(far).pid
    except ssh.HostUnreachable:
        return 0


def start(settings: Settings, far: Agent) -> None:
    lifecycle.start(settings, far, print, drain_seconds=0)


def test_it_is_started_once_and_adopted_afterwards(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    assert machine_of(settings, far).status(far).state == "stopped"
    start(settings, far)
    pid = machine_of(settings, far).status(far).pid
    start(settings, far)
    assert lifecycle.settled(settings, far)
    assert [each.pid for each in machine.processes(PROGRAM)] == [pid]
    (process,) = machine.processes(PROGRAM)
    process.kill()
    until(lambda: health.check(settings, far).state == "dead")
    assert health.check(settings, far).alerts.keys() == {"far1: dead"}
    start(settings, far)
    assert len(machine.processes(PROGRAM)) == 1
    lifecycle.stop(settings, far, print, drain_seconds=0)
    assert machine_of(settings, far).status(far).state == "stopped"
    assert machine.processes(PROGRAM) == []


def test_two_starts_at_once_make_one_process(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    start(settings, far)
    lifecycle.stop(settings, far, print, drain_seconds=0)
    keeper = there(settings) / "agents" / "far1" / "current" / "keeper"
    environment = {"PATH": "/usr/bin:/bin", "EMULATED_HOST": str(machine.home)}
    starts = [subprocess.Popen(["sh", str(keeper), "start"], env=environment) for _ in range(8)]
    assert [each.wait(SECONDS) for each in starts] == [0] * 8
    until(lambda: machine.processes(PROGRAM))  # it is recorded before the shell becomes it
    assert len(machine.processes(PROGRAM)) == 1


def test_a_host_without_power_is_unknown_and_then_dead(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    start(settings, far)
    machine.switch_off()
    look = health.check(settings, far)
    assert look.state == "unknown"
    assert look.alerts.keys() == {"far1: unknown"}
    assert "does not answer" in look.alerts["far1: unknown"]
    machine.switch_on()
    until(lambda: health.check(settings, far).state == "dead")
    start(settings, far)
    assert len(machine.processes(PROGRAM)) == 1


def test_a_host_that_is_cut_off_is_unknown_and_nothing_is_started_twice(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(settings, far)
    pids = [each.pid for each in machine.processes(PROGRAM)]
    enrolment.link(settings, hosts.load(settings)["h1"]).close()
    machine.cut_off()
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(ssh, "CONNECT_SECONDS", 1.0)
            with pytest.raises(ssh.HostUnreachable):
                lifecycle.settled(settings, far)
            assert health.check(settings, far).state == "unknown"
    finally:
        machine.reconnect()
    until(lambda: remote_pid(settings, far) in pids)
    assert [each.pid for each in machine.processes(PROGRAM)] == pids


def test_a_new_version_replaces_the_old_one_and_only_two_are_kept(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    versions = there(settings) / "agents" / "far1" / "versions"
    (versions / ".given_up.new").mkdir(parents=True)
    for change in ("# one\n", "# two\n", "# three\n"):
        with (folder(settings, "far1") / "agent.properties").open("a") as out:
            out.write(change)
        assert not lifecycle.settled(settings, far)
        start(settings, far)
        assert lifecycle.settled(settings, far)
    current = (versions.parent / "current").resolve()
    assert (current / "agent.properties").read_text().endswith("# three\n")
    assert [each.name for each in versions.iterdir()] == [current.name]
    assert len(list((there(settings) / "lib").iterdir())) == 1
    assert len(machine.processes(PROGRAM)) == 1


def test_no_secret_is_in_a_command_line_or_readable_by_others(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    start(settings, far)
    secret = (settings.home / "secrets" / "identity").read_text()
    current = there(settings) / "agents" / "far1" / "current"
    assert (current / "identity.key").read_text() == secret
    assert not any(secret in part for each in machine.processes() for part in command_line(each))
    assert not any(path.stat().st_mode & 0o077 for path in current.iterdir())
    assert current.resolve().stat().st_mode & 0o077 == 0


def test_a_copy_that_was_damaged_on_the_way_is_not_used(
    settings: Settings, machine: EmulatedHost, far: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ssh.SshLink.copy

    def damaged(self: ssh.SshLink, folder: object, files: dict[str, object]) -> None:
        real(self, folder, {**files, "keeper": b"#!/bin/sh\n"})  # type: ignore[arg-type]

    monkeypatch.setattr(ssh.SshLink, "copy", damaged)
    with pytest.raises(ssh.RemoteFailed):
        start(settings, far)
    assert machine_of(settings, far).status(far).state == "stopped"
    monkeypatch.undo()


def test_its_files_are_read_where_they_are(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    assert machine_of(settings, far).all_read(far)
    path = machine.home / "log" / "access.2026-01-02.log"
    path.write_bytes(b"a line\n" * 100_000)
    (machine.home / "log" / "other.txt").touch()
    assert not machine_of(settings, far).all_read(far)
    (file,) = machine_of(settings, far).log_files(far.name, far.patterns(settings.home)).values()
    with file.open("rb") as opened:
        assert opened.read() == path.read_bytes()
    audited = dict(front_end_files(settings, "h5_logs"))
    found = account(audited["far1", str(path)], "far1", str(path), NOTHING, NOTHING)
    assert (found.lines, found.missing_lines) == (100_000, 100_000)


def test_it_goes_back_in_its_files_and_keeps_the_positions_age(
    settings: Settings, machine: EmulatedHost, far: Agent
) -> None:
    """By its age the agent knows a position that is older than a generation."""
    path = machine.home / "log" / "access.2026-01-02.log"
    path.write_bytes(b"a line\n" * 10)
    on_host = machine_of(settings, far)
    assert on_host.read_to(far) == {}
    assert on_host.rewind(far, {str(path): 0}) == {}
    state = there(settings) / "agents" / "far1" / "state"
    state.mkdir(parents=True, exist_ok=True)
    gone = {"inode": 1, "pos": 9, "file": str(path.with_name("access.2026-01-01.log"))}
    entries = [{"inode": path.stat().st_ino, "pos": 70, "file": str(path)}, gone]
    (state / "position.json").write_text(json.dumps(entries))
    os.utime(state / "position.json", (1_000, 1_000))
    assert on_host.read_to(far) == {str(path): 70}
    assert on_host.rewind(far, {str(path): 14, gone["file"]: 0}) == {str(path): (70, 14)}
    assert on_host.read_to(far) == {str(path): 14}
    assert json.loads((state / "position.json").read_text())[1] == gone
    assert (state / "position.json").stat().st_mtime == 1_000
    assert [each.name for each in state.iterdir()] == ["position.json"]


def test_missing_lines_are_found_in_its_files(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    path = machine.home / "log" / "access.2026-01-02.log"
    path.write_bytes(b"a line\n" * 100_000)
    (contents,) = machine_of(settings, far).log_files(far.name, far.patterns(settings.home)).values()
    file = CollectedFile(far.name, str(path), 700_000, None, contents)
    found = missing_lines(file, np.array([(7, 9), (15, 20), (500_000, 700_000)]))
    assert found is not None
    assert found.spans == ((7, 9), (500_003, 700_000))


def test_a_front_end_keeps_its_host(settings: Settings, machine: EmulatedHost, far: Agent) -> None:
    path = settings.home / "collection.yaml"
    path.write_text(path.read_text().replace("runs_on: h1, ", ""))
    with pytest.raises(deploy_plan.inventory.InventoryError, match="'far1' runs on h1, not on local: "):
        deploy_plan.plan(settings)
