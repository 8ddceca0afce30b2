"""What is checked before anything starts, and what is said if a daemon does not start."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack import bringup, catalogue, entry, health, initialise, jars, supervisord
from sluice.stack.networking import ports
from sluice.storage.hive import Hive, SqlFailed
from sluice_lab.ports import port_base


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="test", home=tmp_path / "test", port_base=port_base())


def test_a_taken_port_is_named_with_who_has_it_and_the_remedy(settings: Settings) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", settings.port("kafka")))
        other.listen()
        with pytest.raises(ports.PortInUse) as refused:
            bringup.clear_way(settings, catalogue.own(settings))
    message = str(refused.value)
    assert f"port {settings.port('kafka')} (kafka, for kafka)" in message
    assert f"pid {os.getpid()}" in message
    assert "port_bases" in message


def test_an_address_that_the_machine_does_not_have_is_named_by_its_setting(settings: Settings) -> None:
    for setting in ("hadoop_host", "bind_host"):
        given = Settings(
            instance="test",
            home=settings.home,
            port_base=settings.port_base,
            **{setting: "192.0.2.1"},  # type: ignore[arg-type]  # for documents, so no machine has it
        )
        with pytest.raises(ports.NoSuchAddress, match=rf"^{setting} = '192\.0\.2\.1': .*`ip address`"):
            ports.require_free(given, "namenode", "namenode")


def test_a_stopped_instance_says_how_to_start_it(settings: Settings) -> None:
    assert not supervisord.running(settings)
    with pytest.raises(supervisord.SupervisorDown, match="`sluice --instance test up`"):
        supervisord.programs(settings)


@pytest.mark.parametrize("name", catalogue.DAEMONS)
def test_a_daemon_that_is_not_there_is_not_healthy(
    settings: Settings, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "BOOTSTRAP_MILLISECONDS", 100)
    assert entry.check(settings, name)


@pytest.mark.parametrize(
    ("only", "external", "wanted"),
    [
        ((), (), list(catalogue.DAEMONS)),
        (("namenode", "kafka"), (), ["kafka", "namenode"]),
        (("namenode", "kafka"), ("kafka",), ["namenode", "kafka"]),
    ],
)
def test_only_what_is_wanted_is_started_and_waited_for(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    only: tuple[str, ...],
    external: tuple[str, ...],
    wanted: list[str],
) -> None:
    class WaitingAlone(bringup._BringUp):
        """A bring-up that does not begin."""

        def run(self) -> None:
            waited.extend(daemon.name for daemon in self.waited)

    waited: list[str] = []
    started: list[str] = []
    given = Settings(
        instance="test", home=settings.home, port_base=settings.port_base, external=frozenset(external)
    )
    monkeypatch.setattr(bringup.network, "open_and_enter", lambda *_: None)
    monkeypatch.setattr(bringup.tls, "prepare_tls", lambda _: None)
    monkeypatch.setattr(bringup.secrets, "make", lambda _: None)
    monkeypatch.setattr(bringup, "_Deaths", lambda _: None)
    monkeypatch.setattr(bringup, "_BringUp", WaitingAlone)
    monkeypatch.setattr(
        supervisord, "start", lambda _, daemons: started.extend(daemon.name for daemon in daemons)
    )
    bringup.up(given, print, (), only)
    assert sorted(waited) == sorted(wanted)
    assert sorted(started) == sorted(set(wanted) - set(external))


def test_of_two_processes_that_bring_an_instance_up_one_waits(settings: Settings) -> None:
    second = threading.Event()

    def other() -> None:
        with bringup._alone(settings):
            second.set()

    with bringup._alone(settings):
        thread = threading.Thread(target=other)
        thread.start()
        assert not second.wait(0.2)
    thread.join(5)
    assert second.is_set()


def test_jars_that_cannot_be_resolved_are_said_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def offline() -> list[str]:
        raise jars.JarsMissing("Maven could not resolve kafka: check the network")

    monkeypatch.setattr(jars, "resolve", offline)
    assert entry.main(["jars"]) == 1
    assert capsys.readouterr().err == "Maven could not resolve kafka: check the network\n"


def test_a_password_may_have_any_characters(settings: Settings) -> None:
    password = "a@b/c:d%e#f"
    own = settings.postgres.model_copy(update={"host": "db", "port": 5432, "password": password})
    assert sa.make_url(own.url()).password == password
    assert sa.make_url(own.url()).host == "db"


def test_the_entry_point_teaches_its_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main(["start", "kafka"]) == 2
    assert "run|health NAME" in capsys.readouterr().err


def test_hive_tables_are_asked_for_again_if_the_metastore_fails_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [SqlFailed("CREATE TABLE", "[SCHEMA_NOT_FOUND] The schema `sluice` cannot be found.")] * 2
    tried = []

    def ensure_tables(_: Hive) -> None:
        tried.append(len(tried))
        if failures:
            raise failures.pop()

    monkeypatch.setattr(Hive, "ensure_tables", ensure_tables)
    monkeypatch.setattr(initialise, "HIVE_PAUSE_SECONDS", 0.0)
    initialise.hive_tables(settings)
    assert len(tried) == 3
    failures.extend([SqlFailed("CREATE TABLE", "no")] * 3)
    with pytest.raises(SqlFailed):
        initialise.hive_tables(settings)
