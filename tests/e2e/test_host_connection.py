"""A host whose log-in is in Airflow: enrolled by the connection, which a person then changes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from airflow_client.client import ConnectionApi

from sluice.runtime.settings import Settings
from sluice.stack.airflow.answers import AirflowError
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.airflow.session import AirflowSession
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.trust import enrolment
from sluice_lab.waiting import until
from tests.e2e.running import TIMEOUT_SECONDS, Platform
from tests.hosts.one_host import connected, connection, private_key, public

pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(TIMEOUT_SECONDS)]

#: The supervising task starts again after each change of the hosts, and looks every minute.
TAKEN_UP_SECONDS = 240.0
FIRST, SECOND = private_key(), private_key()


@pytest.fixture
def machine(platform: Platform, tmp_path: Path) -> Iterator[EmulatedHost]:
    settings = platform.settings
    try:
        with connected(settings, tmp_path / "h1", FIRST, SECOND) as made:
            yield made
    finally:
        (settings.home / hosts.FILE).unlink()
        with suppress(AirflowError):
            ConnectionApi(AirflowSession(settings)).delete_connection("ssh_h1")


def say(settings: Settings, machine: EmulatedHost, private: str, password: str = "") -> None:
    """Make the connection anew, as a person does in Airflow's pages: a password cannot be taken from it."""
    with suppress(AirflowError):
        ConnectionApi(AirflowSession(settings)).delete_connection("ssh_h1")
    with Airflow(settings) as airflow:
        airflow.put_connection("ssh_h1", {**connection(machine, private), "password": password or None})


def enrol(platform: Platform, *words: str) -> str:
    done = platform.sluice("hosts", "enrol", "h1", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wrong(settings: Settings) -> dict[str, str]:
    return {each.name: each.message for each in alerts.open_alerts(engine(settings), "hosts")}


def test_the_dag_takes_up_what_a_person_changes_and_says_what_it_cannot(
    platform: Platform, machine: EmulatedHost
) -> None:
    settings = platform.settings
    refused = platform.sluice("hosts", "enrol", "h1")
    assert refused.returncode == 1
    assert "connection 'ssh_h1': Airflow does not give it (Connection not found.)" in refused.stderr

    say(settings, machine, FIRST)
    assert public(FIRST).strip() in enrol(platform)
    assert "h1: enrolled" in enrol(platform, "--fingerprint", machine.fingerprint())
    host = hosts.load(settings)["h1"]
    assert enrolment.access(settings, host).private_key == FIRST

    say(settings, machine, SECOND, password="opensesame")
    refusal = "password: Sluice logs in with a key only"
    until(lambda: refusal in wrong(settings).get("h1: connection", ""), TAKEN_UP_SECONDS, "an alert")
    assert "opensesame" not in wrong(settings)["h1: connection"]
    assert enrolment.access(settings, host).private_key == FIRST
    assert enrolment.link(settings, host).run("echo", "hello") == "hello\n"

    say(settings, machine, SECOND)
    until(lambda: not wrong(settings), TAKEN_UP_SECONDS, "the alert is cleared")
    assert enrolment.access(settings, host).private_key == SECOND
    assert enrolment.link(settings, host).run("echo", "hello") == "hello\n"
    checked = platform.sluice("hosts", "check")
    assert (checked.returncode, "answers" in checked.stdout) == (0, True), checked.stdout
