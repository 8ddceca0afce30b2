"""Kafka and PostgreSQL start again when their listeners for hosts come or go, and only then."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sluice.cli import listeners
from sluice.cli.listeners import DaemonNotBack
from sluice.runtime.settings import Settings
from sluice.stack import entry, supervisord
from sluice.stack.daemons import kafka, postgres
from sluice.storage import listener as database
from sluice.transmission import listener
from sluice.transmission.listener import KafkaListener


@pytest.fixture
def changed(tmp_path: Path) -> Settings:
    """An instance whose broker began without the listener that it is to have now."""
    settings = Settings(instance="test", home=tmp_path)
    kafka.configure(settings)
    (tmp_path / "hosts").mkdir()
    listener.write(tmp_path, KafkaListener("127.0.0.1", "identity.p12", "trust.p12", "1"))
    return settings


def test_it_starts_again_and_is_waited_for(changed: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    monkeypatch.setattr(supervisord, "running", lambda _: True)
    monkeypatch.setattr(supervisord, "stop_program", lambda _, name: steps.append(f"stop {name}"))

    def start(settings: Settings, name: str) -> None:
        kafka.configure(settings)
        steps.append(f"start {name}")

    problems = iter(["it is not there yet", None])
    monkeypatch.setattr(supervisord, "start_program", start)
    monkeypatch.setattr(entry, "check", lambda *_: next(problems))
    monkeypatch.setattr(listeners, "_POLL", 0.0)
    said: list[str] = []
    listeners.start_again(changed, said.append)
    listeners.start_again(changed, said.append)
    assert steps == ["stop kafka", "start kafka"]
    assert said == ["Kafka starts again, because its listeners change"]
    text = (changed.home / "conf" / "kafka" / "server.properties").read_text()
    assert f"HOSTS://127.0.0.1:{changed.port(listener.PORT)}" in text


def test_one_that_does_not_come_back_is_named(changed: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in (("running", True), ("stop_program", None), ("start_program", None)):
        monkeypatch.setattr(supervisord, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(listeners, "HEALTHY_SECONDS", 0.0)
    with pytest.raises(
        DaemonNotBack, match=r"Kafka is not healthy after 0 s \(it does not start\): sluice logs kafka"
    ):
        listeners.start_again(changed, print)


def test_what_does_not_run_under_the_supervisor_is_the_users(
    changed: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisord, "running", lambda _: False)
    said: list[str] = []
    listeners.start_again(changed, said.append)
    assert said == ["Kafka's listeners change: if it runs, start it again"]
    theirs = changed.model_copy(update={"external": frozenset({"kafka"})})
    listeners.start_again(theirs, said.append)
    assert len(said) == 1


def test_postgres_starts_again_for_a_job_s_host_and_listens_to_it_with_tls_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(instance="test", home=tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # no file is given to another account
    postgres.configure(settings)
    (tmp_path / "hosts").mkdir()
    database.write(tmp_path, database.DatabaseListener("10.0.0.1", ["10.0.0.31/32", "work2.example"]))
    for name, answer in (("running", True), ("stop_program", None)):
        monkeypatch.setattr(supervisord, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(supervisord, "start_program", lambda *_: postgres.configure(settings))
    monkeypatch.setattr(entry, "check", lambda *_: None)
    said: list[str] = []
    listeners.start_again(settings, said.append)
    listeners.start_again(settings, said.append)
    assert said == ["PostgreSQL starts again, because its listeners change"]
    data = tmp_path / "data" / "postgres"
    assert "listen_addresses = '127.0.0.1, 10.0.0.1'\n" in (data / "postgresql.conf").read_text()
    lines = (data / "pg_hba.conf").read_text().splitlines()
    assert [line for line in lines if line.startswith("host")] == [
        *(f'host "{name}" "{name}" 127.0.0.0/8 scram-sha-256' for name in ("sluice", "airflow", "metastore")),
        'hostssl "sluice" "sluice" 10.0.0.31/32 scram-sha-256',
        'hostssl "sluice" "sluice" work2.example scram-sha-256',
    ]
    assert stat.S_IMODE((data / "server.key").stat().st_mode) == 0o600
    database.write(tmp_path, None)
    listeners.start_again(settings, said.append)
    assert len(said) == 2
    assert "ssl = on" not in (data / "postgresql.conf").read_text()
