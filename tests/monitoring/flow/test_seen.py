"""One look at an instance: what is asked, and that nothing that is away holds it up."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.collection.agent import Agent, folder
from sluice.monitoring.flow import seen as module
from sluice.monitoring.flow.seen import AgentNow, FlowLook, agents, asked
from sluice.runtime.settings import Settings
from sluice.stack.catalogue import DAEMONS
from sluice_lab.waiting import until
from tests.monitoring.instance import settings_of

COUNTERS = {
    "SOURCE.lines": {"StartTime": "1"},
    "CHANNEL.buffer": {"ChannelSize": "5", "ChannelFillPercentage": "25", "EventTakeSuccessCount": "60"},
    "SINK.to_0": {"ConnectionFailedCount": "2", "EventWriteFail": "1", "StartTime": "1"},
}


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server that answers as an agent does."""

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(COUNTERS).encode())

        def log_message(self, *arguments: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def deployed(settings: Settings, name: str, port: int) -> None:
    agent = Agent(name, "edge", "logs", "memory", 10_000, port)
    where = folder(settings, name)
    where.mkdir(parents=True)
    (where / "agent.json").write_text(agent.to_json())


def test_agents_say_their_channel_and_their_failures(tmp_path: Path, port: int) -> None:
    settings = settings_of(tmp_path)
    deployed(settings, "web1", port)
    assert agents(settings) == [AgentNow("web1", "edge", True, 0.25, 5.0, 60.0, 3)]
    elsewhere = Settings(instance="test", home=tmp_path, hosts={"kafka": "k"}, network="host")
    assert agents(elsewhere) == [AgentNow("web1", "edge", None)]


def test_an_agent_that_is_dead_does_not_answer(tmp_path: Path, port: int) -> None:
    settings = settings_of(tmp_path)
    deployed(settings, "web1", 1)
    deployed(settings, "web2", port)
    assert {each.name: each.answers for each in agents(settings)} == {"web1": False, "web2": True}


def test_of_an_external_service_only_what_clients_reach_is_asked(tmp_path: Path) -> None:
    assert set(asked(settings_of(tmp_path))) == set(DAEMONS)
    external = Settings(instance="test", home=tmp_path, external=frozenset({"hdfs"}), network="host")
    assert set(DAEMONS) - set(asked(external)) == {"datanode"}


def test_a_look_at_what_hangs_and_fails_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()

    def check(settings: Settings, name: str) -> str | None:
        if name == "kafka":
            gate.wait()
        return "down" if name == "hbase" else None

    def fails() -> dict[str, module.DagRuns]:
        raise ConnectionError("no database")

    monkeypatch.setattr(module, "check", check)
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    look = FlowLook(settings_of(tmp_path), fails)
    try:
        until(lambda: look().runs.error == "no database", poll=0.0)
        found = look()
        assert found.daemons["kafka"].value is None
        assert found.daemons["kafka"].waiting > 0
        assert found.daemons["hbase"].value == "down"
        assert found.daemons["namenode"].value == ""
    finally:
        gate.set()
