"""The log files of a front-end on another host must be there for its account to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluice.collection import lifecycle
from sluice.collection.agent import Agent
from sluice.collection.hosting import machine_of
from sluice.collection.pattern import Pattern
from sluice.runtime import settings as of_settings
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.commands import hosts as command
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import readable
from sluice_hosts.links.ssh import RemoteFailed, SshLink
from sluice_hosts.trust import enrolment
from tests.hosts.one_host import switch_on_without_roots_rights

pytestmark = pytest.mark.slow

DAYS = ("access.2026-01-01.log", "access.2026-01-02.log", "access.2026-01-03.log")


@pytest.fixture
def logs(settings: Settings, machine: EmulatedHost, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of far1's log files, of which all can be read."""
    monkeypatch.setattr(of_settings, "get_settings", lambda: settings)
    enrolment.link(settings, hosts.load(settings)["h1"]).close()
    switch_on_without_roots_rights(machine)
    folder = machine.home / "log"
    for name in DAYS:
        (folder / name).write_text("a line\n")
    (folder / f"{DAYS[0]}.gz").touch(0o000)  # no pattern asks for it
    yield folder
    folder.chmod(0o755)


def account(settings: Settings) -> str:
    access = hosts.load(settings)["h1"].ssh
    assert access is not None
    return access.user


def check(settings: Settings, folder: Path) -> int:
    link: SshLink = enrolment.link(settings, hosts.load(settings)["h1"])
    return readable.check(link, "far1", [Pattern(folder, "access.%Y-%m-%d.log")])


def test_all_that_match_are_opened(settings: Settings, logs: Path) -> None:
    assert check(settings, logs) == len(DAYS)


def test_a_file_that_can_be_listed_and_not_read_is_named_with_the_remedy(
    settings: Settings, logs: Path, far: Agent
) -> None:
    for name in DAYS[1:]:
        (logs / name).chmod(0o000)
    me = account(settings)
    said = (
        rf"{logs / DAYS[1]} on h1 cannot be read \(Permission denied\), nor can 1 more: give {me} the right"
    )
    with pytest.raises(RemoteFailed, match=said):
        check(settings, logs)
    with pytest.raises(RemoteFailed, match=said):  # it would follow the other files, and these never
        lifecycle.start(settings, far, print, drain_seconds=0)
    assert machine_of(settings, far).status(far).state == "stopped"


def test_a_folder_that_cannot_be_listed_or_is_not_there_is_named(settings: Settings, logs: Path) -> None:
    with pytest.raises(RemoteFailed, match=r"absent on h1 is no directory: make it"):
        check(settings, logs / "absent")
    logs.chmod(0o000)
    said = rf"far1: .*{logs} cannot be read: .* denied: give {account(settings)} r and x on it"
    with pytest.raises(RemoteFailed, match=said):
        check(settings, logs)


@pytest.mark.usefixtures("far")
def test_the_command_says_it_of_each_front_end_in_the_inventory(settings: Settings, logs: Path) -> None:
    done = CliRunner().invoke(command.app, ["check", "--format", "csv"])
    assert done.exit_code == 0, done.output
    assert "h1,readable,far1: 3 log files" in done.output
    (logs / DAYS[2]).chmod(0o000)
    done = CliRunner().invoke(command.app, ["check", "--format", "csv"])
    assert done.exit_code == 1
    assert f"{logs / DAYS[2]} on h1 cannot be read" in done.output
    for path in logs.iterdir():
        path.unlink()
    done = CliRunner().invoke(command.app, ["check", "--format", "csv"])
    assert (done.exit_code, "h1,no files,far1: nothing there is called" in done.output) == (0, True)


@pytest.mark.usefixtures("logs")
def test_the_command_looks_at_hosts_although_the_inventory_is_faulty(settings: Settings) -> None:
    (settings.home / "collection.yaml").write_text("topic: t\n")
    done = CliRunner().invoke(command.app, ["check", "--format", "csv"])
    assert done.exit_code == 1
    assert "front_ends" in done.output
    assert "h1,answers," in done.output
