"""A connection as Airflow's own command gives it, with its secrets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow_client.client import ConnectionApi

from sluice.runtime.settings import Settings
from sluice.stack.airflow.command import ConnectionNotRead, connection
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.airflow.session import AirflowSession

pytestmark = pytest.mark.slow

KEY = "-----BEGIN\n" + "a" * 400 + "\n[bold]:smile: é END-----"
FIELDS: dict[str, Any] = {
    "conn_type": "ssh",
    "host": "127.0.1.1",
    "login": "sluice",
    "password": "[red]x[/red]",
    "extra": {"private_key": KEY, "no_host_key_check": "false"},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An instance without a database."""
    return Settings(instance="test", home=tmp_path, port_base=29_000)


def test_a_variable_needs_no_database(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SSH_H1", json.dumps({**FIELDS, "port": 2222}))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert connection(settings, "ssh_h1") == {**FIELDS, "port": "2222"}


def test_one_that_is_missing_is_named(settings: Settings) -> None:
    with pytest.raises(
        ConnectionNotRead, match=r"'ssh_h1': Airflow does not give it \(Connection not found\.\)"
    ):
        connection(settings, "ssh_h1")


@pytest.mark.stack
def test_airflow_keeps_one_of_the_type_ssh(stack: Settings) -> None:
    with Airflow(stack) as airflow:
        airflow.put_connection("ssh_command", FIELDS)
        try:
            assert connection(stack, "ssh_command") == {**FIELDS, "port": None}
        finally:
            ConnectionApi(AirflowSession(stack)).delete_connection("ssh_command")


@pytest.mark.stack
def test_airflow_s_pages_offer_the_type_ssh(stack: Settings) -> None:
    session = AirflowSession(stack)
    answer = session.call_api("GET", f"{stack.airflow.url}/ui/connections/hook_meta")
    assert "ssh" in {each["connection_type"] for each in json.loads(answer.response.data)}
