"""Another host is looked at over SSH; one that is off or cut off is silent, and one that is back is not."""

from __future__ import annotations

from collections.abc import Iterator

import asyncssh
import pytest

from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from sluice_hosts.units import answering, measure
from sluice_hosts.units.view import view
from sluice_lab.waiting import SECONDS
from tests.hosts.conftest import JAVA
from tests.hosts.one_host import emulated
from tests.hosts.units.double import DictionaryUnits, Instance

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROLES = "roles: [edge, collector], ssh:"


@pytest.fixture
def host(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHost]:
    """h1, enrolled, which may have collectors."""
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    with emulated(instance.settings, instance.settings.home / "h1") as made:
        made.program("java", JAVA)
        path = instance.settings.home / hosts.FILE
        path.write_text(path.read_text().replace("ssh:", ROLES))
        found = hosts.load(instance.settings)["h1"]
        enrolment.enrol(instance.settings, found, ssh.host_key(found.address, made.port)[1])
        yield made


def looked(instance: Instance) -> HostRow:
    """What a look finds of h1, on which a unit runs: this very process."""
    measure.look(instance.settings, instance.database, [DictionaryUnits({"c1": "h1"})])
    with instance.database.connect() as connection:
        return book.read_hosts(connection)["h1"]


def state(instance: Instance) -> str:
    return view(instance.settings, instance.database, [DictionaryUnits({"c1": "h1"})]).states["h1"].state


def test_a_host_says_what_it_has_and_what_its_units_use(instance: Instance, host: EmulatedHost) -> None:
    row = looked(instance)
    assert (row.why, row.silent_since) == ("", None)
    assert row.cores
    assert row.core
    assert state(instance) == "open"
    with instance.database.connect() as connection:
        reading = book.read_units(connection)["collector:c1"].reading
    assert reading
    assert reading["cpu"] > 0


def test_a_host_that_is_off_is_silent_until_it_is_back(instance: Instance, host: EmulatedHost) -> None:
    placement = instance.settings.placement.model_copy(update={"silent_seconds": 600.0})  # it stays "waiting"
    instance.settings = instance.settings.model_copy(update={"placement": placement})
    looked(instance)
    host.switch_off()
    row = looked(instance)
    assert row.silent_since
    assert "h1" in row.why
    assert state(instance) == "waiting"
    again = looked(instance)
    assert again.silent_since == row.silent_since
    host.switch_on()
    assert looked(instance).silent_since is None
    assert state(instance) == "open"


def test_a_host_that_hangs_does_not_greet(instance: Instance, host: EmulatedHost) -> None:
    found = hosts.load(instance.settings)["h1"]
    assert answering.answers(instance.settings, found)
    host.cut_off()
    assert not answering.answers(instance.settings, found), (
        "the kernel takes the connection, and nobody greets"
    )
    host.reconnect()
    assert answering.answers(instance.settings, found)


def test_a_connection_whose_host_falls_silent_is_lost_before_a_command_is_given_up(
    instance: Instance, host: EmulatedHost
) -> None:
    link = enrolment.link(instance.settings, hosts.load(instance.settings)["h1"])
    assert link.run("echo", "there") == "there\n"
    assert link.run("sh", "-c", "sleep 12; echo done") == "done\n", "a slow command is none"
    host.cut_off()
    with pytest.raises(ssh.HostUnreachable, match=r"does not answer: (?!TimeoutError)"):
        link.run("true")
    host.reconnect()


def test_a_host_that_was_lost_is_asked_for_its_greeting_before_a_connection_is_waited_for(
    instance: Instance, host: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "CONNECT_SECONDS", 10 * SECONDS)
    link = enrolment.link(instance.settings, hosts.load(instance.settings)["h1"])
    assert link.run("echo", "there") == "there\n"
    host.cut_off()
    for _ in range(2):
        with pytest.raises(ssh.HostUnreachable):
            link.run("true")
    host.reconnect()
    assert link.run("echo", "there") == "there\n"


def test_a_host_that_is_silent_is_not_waited_for_again(
    instance: Instance, host: EmulatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked(instance)
    host.cut_off()
    assert looked(instance).silent_since
    with monkeypatch.context() as patch:
        patch.setattr(ssh.SshLink, "run", lambda *_, **__: pytest.fail("it was asked over SSH"))
        assert looked(instance).silent_since
    host.reconnect()
    assert looked(instance).silent_since is None


def test_a_host_that_refuses_the_key_is_not_silent(instance: Instance, host: EmulatedHost) -> None:
    looked(instance)
    host.switch_off()
    host.authorize(asyncssh.generate_private_key("ssh-ed25519").export_public_key("openssh").decode().strip())
    host.switch_on()
    row = looked(instance)
    assert row.silent_since is None
    assert "does not let this key in" in row.why
    assert state(instance) == "barred"
