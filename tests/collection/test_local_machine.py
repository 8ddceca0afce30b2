"""This machine as a `machine` for agents, without one that runs: what it says, holds, refuses and reads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.collection import local_machine
from sluice.collection.agent import Agent, folder
from sluice.collection.channel_log import FILL
from sluice.collection.errors import AgentError
from sluice.collection.hosting import Hosting
from sluice.collection.local_machine import CLEAN, HOLD, TORN, LocalMachine
from sluice.collection.machine import Machine, ProcessState, Status
from sluice.collection.pattern import Pattern
from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.storage.tables import open_losses


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    files = (f"{tmp_path}/log/access.%Y-%m-%d.log",)
    return Agent("web1", "edge", "logs", "memory", 1_000, 29_400, files=files, max_line=1_000)


@pytest.fixture
def machine(settings: Settings, agent: Agent) -> Machine:
    folder(settings, agent.name).mkdir(parents=True)
    return LocalMachine(settings)


def test_an_agent_that_was_never_started_is_stopped_and_clean(machine: Machine, agent: Agent) -> None:
    assert machine.status(agent) == Status(ProcessState.STOPPED, clean=True)


def test_a_channel_on_disk_is_clean_only_if_it_ended_so(
    settings: Settings, machine: Machine, agent: Agent
) -> None:
    (folder(settings, agent.name) / "channel").mkdir()
    assert not machine.status(agent).clean
    machine.stop(agent, 1.0, drained=True)
    assert machine.status(agent).clean


def test_input_is_held_until_it_is_released(settings: Settings, machine: Machine, agent: Agent) -> None:
    machine.hold(agent, held=True)
    assert (folder(settings, agent.name) / HOLD).exists()
    assert machine.status(agent).held
    machine.hold(agent, held=False)
    machine.hold(agent, held=False)
    assert not machine.status(agent).held


def test_what_is_told_of_collectors_is_known(machine: Machine, agent: Agent) -> None:
    machine.tell(agent, "collector1=10.0.0.1\n")
    assert machine.status(agent).collectors == "collector1=10.0.0.1\n"


def test_a_folder_of_logs_outside_the_instance_must_be_there(
    settings: Settings, agent: Agent, tmp_path: Path
) -> None:
    elsewhere = LocalMachine(settings.model_copy(update={"home": tmp_path / "home"}))
    assert "log is no directory: make it" in elsewhere.refuses(agent)
    elsewhere.lay_out(agent)
    assert elsewhere.refuses(agent) == ""


def test_all_is_read_when_each_file_is_at_its_end(
    settings: Settings, machine: Machine, agent: Agent, tmp_path: Path
) -> None:
    machine.lay_out(agent)
    assert machine.all_read(agent)
    log = tmp_path / "log" / "access.2026-01-01.log"
    log.write_text("a\nb\n")
    assert not machine.all_read(agent)
    entry = {"inode": log.stat().st_ino, "pos": 4, "file": str(log)}
    (folder(settings, agent.name) / "position.json").write_text(json.dumps([entry]))
    assert machine.all_read(agent)
    assert list(machine.log_files(agent.name, [Pattern.parse(agent.files[0], tmp_path)])) == [
        "log/access.2026-01-01.log"
    ]


def test_a_memory_channel_that_was_not_clean_is_rewound_once(
    settings: Settings, machine: Machine, agent: Agent, tmp_path: Path
) -> None:
    machine.lay_out(agent)
    log = tmp_path / "log" / "access.2026-01-01.log"
    log.write_text("a\nb\n")
    entry = {"inode": log.stat().st_ino, "pos": 4, "file": str(log)}
    (folder(settings, agent.name) / "position.json").write_text(json.dumps([entry]))
    assert machine.recover(replace(agent, channel="file"), 1_000) == {}
    assert machine.recover(agent, 1_000) == {str(log): (4, 0)}
    assert (folder(settings, agent.name) / CLEAN).exists()
    assert machine.recover(agent, 1_000) == {}


def test_an_edge_goes_back_in_the_files_that_are_named(
    settings: Settings, machine: Machine, agent: Agent, tmp_path: Path
) -> None:
    machine.lay_out(agent)
    assert machine.read_to(agent) == {}
    assert machine.rewind(agent, {"log/access.2026-01-01.log": 0}) == {}
    logs = [tmp_path / "log" / f"access.2026-01-0{day}.log" for day in (1, 2, 3)]
    for log in logs:
        log.write_text("a\nb\n")
    where = folder(settings, agent.name)
    entries = [{"inode": log.stat().st_ino, "pos": 4, "file": str(log)} for log in logs]
    entries[2]["inode"] += 1  # another content has the name now
    (where / "position.json").write_text(json.dumps(entries))
    (where / "generations.json").write_text(json.dumps({"log/access.2026-01-02.log": {"generation": 1}}))
    first, second = "log/access.2026-01-01.log", "log/access.2026-01-02.log#1"
    assert machine.read_to(agent) == {first: 4, second: 4}
    to = {first: 9, second: 2, "log/access.2026-01-02.log": 0, "log/access.2026-01-03.log": 0}
    assert machine.rewind(agent, to) == {str(logs[1]): (4, 2)}
    assert machine.read_to(agent) == {first: 4, second: 2}


def test_the_end_of_a_log_is_read_and_a_log_that_is_not_there_is_empty(
    settings: Settings, machine: Machine, agent: Agent
) -> None:
    assert machine.log_tail(agent) == b""
    (settings.home / "logs").mkdir()
    (settings.home / "logs" / f"{agent.process}.out").write_text("0123456789")
    assert machine.log_tail(agent, "out", size=4) == b"6789"


def test_the_core_alone_knows_no_other_machine(settings: Settings) -> None:
    with pytest.raises(AgentError, match="host 'h1': other hosts need the package sluice_hosts"):
        Hosting().machine(settings, "h1")


def test_a_torn_channel_is_mended_once_the_front_ends_are_asked(
    settings: Settings, machine: Machine, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge, data = replace(agent, channel="file"), folder(settings, agent.name) / "channel" / "data"
    data.mkdir(parents=True)
    log = data / "log-1"
    log.write_bytes(b"\x7f\x00\x00\x10\x00half a record" + FILL * 100)
    asked: list[str] = []

    def ask(engine: object, topic: str) -> None:
        asked.append(topic)
        if len(asked) == 1:
            raise ConnectionError("PostgreSQL is away")

    monkeypatch.setattr(local_machine, "engine", lambda settings: None)
    monkeypatch.setattr(open_losses, "ask", ask)
    assert machine.mend(agent) == ""  # of memory
    with pytest.raises(ConnectionError):
        machine.mend(edge)
    assert "log-1 was torn at byte 0" in machine.mend(edge)
    assert (folder(settings, agent.name) / TORN / "log-1.0").read_bytes().endswith(b"half a record")
    assert (machine.mend(edge), asked) == ("", ["logs", "logs"])


def test_a_damaged_channel_is_named_and_left_as_it_is(
    settings: Settings, machine: Machine, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(channel: Path) -> None:
        raise MiddleDamage(channel / "data" / "log-1", 0, 900, 1)

    monkeypatch.setattr(local_machine.channel_log, "torn", damaged)
    said = machine.mend(replace(agent, channel="file"))
    assert "its channel does not run if Flume needs what is damaged: " in said
    assert "log-1 is damaged at byte 0" in said
    assert not (folder(settings, agent.name) / TORN).exists()
