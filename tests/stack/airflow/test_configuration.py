"""Airflow's configuration: what is in variables, and what in the file for secrets."""

from __future__ import annotations

import os
from configparser import ConfigParser
from pathlib import Path

import pytest

from sluice.runtime import given_secrets
from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.airflow.configuration import AUTH_MANAGER, airflow_environment, auth_manager, write_config
from sluice.stack.environment import environment, own_environment
from sluice.stack.networking import network


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name in [name for name in os.environ if name.startswith("AIRFLOW_")]:  # of other tests
        monkeypatch.delenv(name)
    secrets.make_missing(Settings(instance="test", home=tmp_path))
    odd = {"airflow": {"password": "50% o'$HOME"}}
    return Settings(instance="test", home=tmp_path, postgres=odd)  # type: ignore[arg-type]


def values(settings: Settings) -> list[str]:
    return [path.read_text() for path in (settings.home / "secrets").iterdir()]


def test_no_variable_holds_a_secret(settings: Settings) -> None:
    text = "\0".join(environment(settings).values())
    assert len(values(settings)) > 8
    assert not [value for value in values(settings) if value in text]
    assert "o%27" not in text


def test_airflow_reads_them_from_a_file_that_is_the_owner_s_alone(settings: Settings) -> None:
    write_config(settings)
    path = Path(airflow_environment(settings)["AIRFLOW_CONFIG"])
    assert path.stat().st_mode & 0o777 == 0o600
    config = ConfigParser()  # which interpolates, as Airflow does
    config.read(path)
    assert config["database"]["sql_alchemy_conn"].startswith(
        "postgresql+psycopg2://airflow:50%25%20o%27%24HOME@127.0.0.1:"
    )
    assert config["api_auth"]["jwt_secret"] == (settings.home / "secrets" / "airflow_jwt").read_text()
    assert config["api"]["secret_key"] == (settings.home / "secrets" / "airflow_api").read_text()


def test_what_a_person_wrote_into_airflow_s_own_file_stays(settings: Settings) -> None:
    own = settings.home / "airflow" / "airflow.cfg"
    own.parent.mkdir()
    own.write_text("[core]\nfernet_key = made by Airflow\n[smtp]\nsmtp_host = mail%%1\n")
    write_config(settings)
    config = ConfigParser()
    config.read(airflow_environment(settings)["AIRFLOW_CONFIG"])
    assert config["smtp"]["smtp_host"] == "mail%1"
    assert config["core"]["fernet_key"] != "made by Airflow"
    assert own.read_text().startswith("[core]")


def test_what_was_given_to_airflow_gets_to_airflow_alone(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MAIL", "smtp://me:secret@mail")
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "theirs.Manager")
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "postgresql://elsewhere/airflow")
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY_CMD", "cat theirs")
    monkeypatch.setenv("AIRFLOW__CORE__SQL_ALCHEMY_CONN", "airflow-db-not-allowed:///")  # as in a task
    monkeypatch.setenv("SLUICE_HIVE__PASSWORD", "a secret setting")
    monkeypatch.setenv("SOMEBODY_S", "else")
    secrets.keep_given(settings)
    for name in ("AIRFLOW_CONN_MAIL", "AIRFLOW__CORE__AUTH_MANAGER", "SLUICE_HIVE__PASSWORD"):
        monkeypatch.delenv(name)
    found = airflow_environment(settings)
    assert found["AIRFLOW_CONN_MAIL"] == "smtp://me:secret@mail"
    assert auth_manager(settings) == found["AIRFLOW__CORE__AUTH_MANAGER"] == "theirs.Manager"
    assert not [name for name in found if "ALCHEMY_CONN" in name]  # it would hide the instance's
    assert "AIRFLOW__CORE__FERNET_KEY_CMD" not in found
    assert not [
        name for name in own_environment(settings) if name.startswith("AIRFLOW") or name == "SOMEBODY_S"
    ]
    assert Settings(instance="test", home=settings.home).hive.password == "a secret setting"


def test_the_next_start_forgets_what_is_given_no_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_MAIL", "smtp://me:secret@mail")
    secrets.keep_given(settings)
    monkeypatch.delenv("AIRFLOW_CONN_MAIL")
    monkeypatch.setenv("SLUICE_POSTGRES__PASSWORD", "another container's")
    secrets.add_given(settings)
    assert set(given_secrets.read(settings.home)) == {"AIRFLOW_CONN_MAIL", "SLUICE_POSTGRES__PASSWORD"}
    monkeypatch.delenv("SLUICE_POSTGRES__PASSWORD")
    secrets.keep_given(settings)
    assert given_secrets.read(settings.home) == {}
    assert auth_manager(settings) == AUTH_MANAGER


def test_the_gateway_s_orders_hold_no_secret(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_NOTIFICATIONS__SMTP_PASSWORD", "a mail password")
    monkeypatch.setenv("SLUICE_NOTIFICATIONS__SMTP_HOST", "mail")
    assert network.orders(settings)["given"] == {"SLUICE_NOTIFICATIONS__SMTP_HOST": "mail"}
