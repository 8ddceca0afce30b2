"""What Airflow's connections say of hosts is taken up beside the watch over agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings, get_settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from sluice_hosts.trust.login import of_connection
from tests.hosts.one_host import connected as one_host
from tests.hosts.one_host import connection, private_key
from tests.loops import run

pytestmark = pytest.mark.slow

FIRST, SECOND = private_key(), private_key()


@pytest.fixture
def settings(home: Path, connected: Any) -> Settings:
    return get_settings()


@pytest.fixture
def machine(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHost]:
    """An enrolled host, whose connection has the first key."""
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)
    with one_host(settings, tmp_path / "h1", FIRST, SECOND) as made:
        made.program("java", "echo 'openjdk version \"17.0.9\"'")
        host = hosts.load(settings)["h1"]
        given = of_connection(settings, host, connection(made, FIRST))
        enrolment.enrol(settings, host, made.fingerprint(), given)
        yield made


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The alerts of each look; there is no database here."""
    from sluice_airflow import logins

    found: list[dict[str, str]] = []
    monkeypatch.setattr(logins, "_sync", lambda _, wrong: found.append(dict(wrong)) or [])
    return found


def look(settings: Settings) -> list[str]:
    from sluice_airflow import logins

    return run(logins.take_up(settings))


def test_a_connection_that_was_changed_is_used_and_one_that_was_not_is_left(
    settings: Settings, machine: EmulatedHost, connected: Any, told: list[dict[str, str]]
) -> None:
    host = hosts.load(settings)["h1"]
    connected("ssh_h1", **connection(machine, FIRST))
    assert look(settings) == []
    connected("ssh_h1", **connection(machine, SECOND))
    assert look(settings) == ["h1: what the connection ssh_h1 says now is used"]
    assert enrolment.access(settings, host).private_key == SECOND
    assert enrolment.link(settings, host).run("echo", "hello") == "hello\n"
    assert told == [{}, {}]


def test_a_connection_that_cannot_be_used_is_an_alert_and_the_host_is_reached_as_before(
    settings: Settings, machine: EmulatedHost, connected: Any, told: list[dict[str, str]]
) -> None:
    before = enrolment.enrolled(settings, hosts.load(settings)["h1"])
    assert look(settings) == []
    connected("ssh_h1", **connection(machine, private_key()))
    assert look(settings) == []
    connected("ssh_h1", **connection(machine, SECOND), password="opensesame")
    assert look(settings) == []
    assert [list(each) for each in told] == [["h1: connection"]] * 3
    missing, strange, password = (each["h1: connection"] for each in told)
    assert "host h1: connection ssh_h1: not in Airflow; make it" in missing
    assert "does not let this key in" in strange
    assert "password: Sluice logs in with a key only" in password
    assert "opensesame" not in password
    assert all(each.endswith("Until then h1 is reached as before.") for each in (missing, strange, password))
    assert enrolment.enrolled(settings, hosts.load(settings)["h1"]) == before


def test_a_host_that_is_not_enrolled_is_left_alone(
    settings: Settings, connected: Any, told: list[dict[str, str]]
) -> None:
    text = "- {name: local, address: 127.0.0.1}\n- {name: h9, address: 127.0.1.9, connection: ssh_h9}\n"
    (settings.home / hosts.FILE).write_text(text)
    assert look(settings) == []
    assert told == [{}]


def test_a_database_that_is_away_is_said_once_and_ends_nothing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow import logins

    monkeypatch.setattr(logins, "SECONDS", 0.05)
    looks: list[None] = []
    find = logins._connections
    monkeypatch.setattr(logins, "_connections", lambda found: looks.append(None) or find(found))
    said: list[str] = []

    async def a_while() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(logins.watch(settings, said.append), 3.0)

    run(a_while())
    assert len(looks) > 1
    (once,) = said
    assert once.startswith("cannot read the connections of hosts: OperationalError")
