"""`sluice hosts` reads connections, and asks before it forgets; `sluice status` shows agents elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sluice.cli import far, stack
from sluice.cli import instance as instance_of_cli
from sluice.cli.errors import USAGE, Explained, explain
from sluice.collection import health
from sluice.collection.agent import Agent
from sluice.runtime import settings as of_settings
from sluice.runtime.settings import Settings
from sluice.stack import journal, status
from sluice.stack.status import DaemonState, StatusLine
from sluice.storage import postgres
from sluice_hosts.agents import forgetting
from sluice_hosts.commands import hosts
from sluice_hosts.hosts import FILE
from tests.hosts.one_host import connected, connection, private_key, public

AGENT = Agent("far1", "edge", "t", "file", 10_000, 29_300, runs_on="h1")


@pytest.fixture
def instance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    made = Settings(instance="test", home=tmp_path)
    monkeypatch.setattr(of_settings, "get_settings", lambda: made)
    monkeypatch.setattr(stack, "Settings", lambda: made)
    return made


def test_forget_says_what_is_lost_and_asks(instance: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten: list[str] = []
    noted: list[str] = []
    monkeypatch.setattr(journal, "note", lambda _, **said: noted.append(said["before"]))
    monkeypatch.setattr(forgetting, "forgettable", lambda *_: [AGENT])
    monkeypatch.setattr(forgetting, "forget", lambda _, name: forgotten.append(name))
    cleared: list[str] = []
    monkeypatch.setattr(postgres, "engine", lambda _: None)
    monkeypatch.setattr(health, "report", lambda _, those: cleared.extend(each.agent for each in those))
    refused = CliRunner().invoke(hosts.app, ["forget", "h1"], input="n\n")
    assert (refused.exit_code, forgotten) == (1, [])
    assert "far1: what was not sent yet is lost" in refused.output
    assert CliRunner().invoke(hosts.app, ["forget", "h1", "--yes"]).exit_code == 0
    assert (forgotten, cleared, noted) == (["h1"], ["far1"], ["far1"])


def test_a_host_that_does_not_exist_is_not_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "- {name: local, address: 10.0.0.1}\n- {name: web3, address: 10.0.0.3, ssh: {user: me}}\n"
    (tmp_path / FILE).write_text(text)
    made = Settings(instance="test", home=tmp_path, bind_host="10.0.0.1")
    monkeypatch.setattr(of_settings, "get_settings", lambda: made)
    for name, said in (("nope", "the other hosts are web3"), ("wbe3", "did you mean web3?")):
        refused = CliRunner().invoke(hosts.app, ["forget", name])
        assert (refused.stdout, refused.exception is not None) == ("", True)
        assert explain(refused.exception) == Explained(f"there is no host {name!r}: {said}", USAGE)
    known = CliRunner().invoke(hosts.app, ["forget", "web3"])
    assert (known.exit_code, known.stdout) == (0, "nothing is deployed on web3\n")
    (tmp_path / "hosts" / "web9").mkdir(parents=True)  # enrolled once, and no longer in hosts.yaml
    assert CliRunner().invoke(hosts.app, ["forget", "web9"]).exit_code == 0


def test_what_opens_kafka_is_said_before_the_platform_starts_and_when_hosts_are_enrolled_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "- {name: local, address: 10.0.0.1}\n- {name: h1, address: 127.0.0.1, ssh: {user: me, port: 1}}\n"
    (tmp_path / FILE).write_text(text)
    made = Settings(instance="test", home=tmp_path, bind_host="10.0.0.1")
    monkeypatch.setattr(of_settings, "get_settings", lambda: made)
    monkeypatch.setattr(stack, "Settings", lambda: made)

    def up(*_: object) -> None:
        raise typer.Exit(3)

    monkeypatch.setattr(instance_of_cli, "up", up)
    with pytest.raises(typer.Exit):
        stack.up()
    said = [capsys.readouterr().err]
    said += [CliRunner().invoke(hosts.app, words).output for words in (["enrol", "h1"], ["check"])]
    assert ["WARNING: bind_host = '10.0.0.1'" in each for each in said] == [True] * 3


@pytest.mark.parametrize(
    ("state", "code"), {DaemonState.RUNNING: 0, DaemonState.UNKNOWN: 0, DaemonState.DEAD: 1}.items()
)
def test_status_shows_agents_elsewhere(
    instance: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    state: DaemonState,
    code: int,
) -> None:
    monkeypatch.setattr(status, "daemons", lambda _: [])
    problem = "" if state == "running" else "h1 is away"
    monkeypatch.setattr(far, "agents", lambda _: [StatusLine("flume-far1", state, 0, 0, problem)])
    with pytest.raises(typer.Exit) as ended:
        stack.status()
    assert ended.value.exit_code == code
    assert f"flume-far1  {state}" in capsys.readouterr().out


@pytest.mark.slow
def test_a_host_is_enrolled_with_its_connection_and_a_change_is_taken_up(
    instance: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = private_key(), private_key()

    def says(private: str, **fields: object) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_SSH_H1", json.dumps({**connection(machine, private), **fields}))

    def run(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(hosts.app, words, env={"COLUMNS": "1000"})
        assert not {line for key in (first, second) for line in key.splitlines() if line in done.output}
        return done.exit_code, done.output if done.exception is None else f"{done.output}{done.exception}"

    with connected(instance, tmp_path / "h1", first, second) as machine:
        machine.program("java", "echo 'openjdk version \"17.0.9\"'")
        assert "connection 'ssh_h1': Airflow does not give it" in run("enrol", "h1")[1]
        says(first)
        code, said = run("enrol", "h1")
        assert (code, public(first) in said, machine.fingerprint() in said) == (0, True, True)
        code, said = run("enrol", "h1", "--fingerprint", machine.fingerprint())
        assert (code, "h1: enrolled" in said) == (0, True)
        says(second)
        code, said = run("check")
        assert (code, "what the connection ssh_h1 says now" in said, "answers" in said) == (0, True, True)
        says(second, password="opensesame")
        code, said = run("check")
        assert (code, "password: Sluice logs in with a key only" in said, "answers" in said) == (
            1,
            True,
            True,
        )
        assert "opensesame" not in said
