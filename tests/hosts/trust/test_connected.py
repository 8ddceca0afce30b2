"""A host whose Airflow connection says how it is reached: enrolled, and changed afterwards."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.hosts import Host
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from sluice_hosts.trust.enrolment import EnrolError
from sluice_hosts.trust.login import SshLogin, of_connection
from sluice_hosts.units import answering
from tests.hosts.one_host import connected, connection, private_key, public

pytestmark = pytest.mark.slow

FIRST, SECOND, STRANGE = (private_key() for _ in range(3))


@pytest.fixture
def machine(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHost]:
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    with connected(settings, tmp_path / "h1", FIRST, SECOND) as made:
        made.program("java", "echo 'openjdk version \"17.0.9\"'")
        yield made


@pytest.fixture
def host(settings: Settings, machine: EmulatedHost) -> Host:
    return hosts.load(settings)["h1"]


def said(
    settings: Settings, machine: EmulatedHost, key: str = FIRST, port: int = 0, **extras: Any
) -> SshLogin:
    fields = connection(machine, key, **extras)
    return of_connection(settings, hosts.load(settings)["h1"], {**fields, "port": port or machine.port})


def enrol(settings: Settings, machine: EmulatedHost, host: Host) -> None:
    enrolment.enrol(settings, host, machine.fingerprint(), said(settings, machine))


def works(settings: Settings, machine: EmulatedHost, host: Host) -> bool:
    return enrolment.link(settings, host).run("sh", "-c", "echo $HOME").strip() == str(machine.home)


def test_it_is_enrolled_with_the_connections_key_and_needs_no_airflow_afterwards(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    given = said(settings, machine)
    assert enrolment.public_key(settings, host, given) == public(FIRST).strip()
    with pytest.raises(EnrolError, match="h1 is not enrolled: run `sluice hosts enrol h1`"):
        enrolment.link(settings, host)
    enrol(settings, machine, host)
    assert works(settings, machine, host)
    assert enrolment.check(settings, host)
    assert answering.answers(settings, host)
    assert not (enrolment.folder(settings, "h1") / "key").exists()
    for path in enrolment.folder(settings, "h1").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_connection_without_a_key_uses_the_one_that_is_made(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    given = of_connection(settings, host, {**connection(machine, FIRST), "extra": None})
    machine.authorize(enrolment.public_key(settings, host, given))
    machine.switch_off()
    machine.switch_on()
    enrolment.enrol(settings, host, machine.fingerprint(), given)
    assert works(settings, machine, host)


def test_a_key_file_is_used_and_a_missing_one_is_named(
    settings: Settings, machine: EmulatedHost, host: Host, tmp_path: Path
) -> None:
    fields = {**connection(machine, FIRST), "extra": {"key_file": str(tmp_path / "mine")}}
    given = of_connection(settings, host, fields)
    with pytest.raises(
        EnrolError, match=r"mine: there is no such file; correct the connection ssh_h1 in Air"
    ):
        enrolment.public_key(settings, host, given)
    (tmp_path / "mine").write_text(FIRST)
    enrolment.enrol(settings, host, machine.fingerprint(), given)
    assert works(settings, machine, host)


def test_the_host_must_show_the_connections_host_key(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    strange = public(STRANGE)
    given = said(settings, machine, host_key=strange)
    with pytest.raises(
        EnrolError, match=r"h1 shows the key ssh-ed25519 .* says extra\.host_key = ssh-ed25519"
    ):
        enrolment.enrol(settings, host, machine.fingerprint(), given)
    own = asyncssh.read_private_key(machine.home / "host_key").export_public_key("openssh").decode()
    enrolment.enrol(settings, host, machine.fingerprint(), said(settings, machine, host_key=own))
    assert works(settings, machine, host)


def test_what_the_connection_says_later_is_taken_up_once_it_works(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    enrol(settings, machine, host)
    before = enrolment.enrolled(settings, host)
    assert not enrolment.take_up(settings, host, said(settings, machine))
    with pytest.raises(ssh.HostUnreachable, match=r"h1 .* does not let this key in"):
        enrolment.take_up(settings, host, said(settings, machine, STRANGE))
    with pytest.raises(ssh.HostUnreachable, match=r"h1 .*:1\) does not answer"):
        enrolment.take_up(settings, host, said(settings, machine, port=1))
    pinned = said(settings, machine, SECOND, host_key=public(STRANGE))
    with pytest.raises(EnrolError, match=r"ssh_h1 in Airflow says extra\.host_key = .* is pinned: correct"):
        enrolment.take_up(settings, host, pinned)
    assert enrolment.enrolled(settings, host) == before
    assert works(settings, machine, host)
    assert enrolment.take_up(settings, host, said(settings, machine, SECOND))
    assert enrolment.access(settings, host) == said(settings, machine, SECOND)
    assert works(settings, machine, host)
    assert enrolment.check(settings, host)


def test_another_account_is_enrolled_again(settings: Settings, machine: EmulatedHost, host: Host) -> None:
    enrol(settings, machine, host)
    path = enrolment.folder(settings, "h1") / "enrolled.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "directory": record["directory"].replace("/h1/", "/other/")}))
    with pytest.raises(EnrolError, match=r"the account's home .* moved: run `sluice hosts enrol h1`"):
        enrolment.take_up(settings, host, said(settings, machine, SECOND))


def test_a_host_with_another_way_to_log_in_is_enrolled_again(
    settings: Settings, machine: EmulatedHost, host: Host
) -> None:
    enrol(settings, machine, host)
    other = host.model_copy(update={"connection": "ssh_h2"})
    with pytest.raises(EnrolError, match=r"with `connection: ssh_h1`, and has `connection: ssh_h2` now: run"):
        enrolment.link(settings, other)
    plain = host.model_copy(update={"connection": None, "ssh": hosts.Ssh(user="me")})
    with pytest.raises(EnrolError, match=r"with `connection: ssh_h1`, and has `ssh:` now: run `sluice"):
        enrolment.link(settings, plain)
