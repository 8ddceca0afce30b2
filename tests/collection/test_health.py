from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from sluice.collection import lifecycle, metrics
from sluice.collection.agent import Agent
from sluice.collection.health import check, judge
from sluice.collection.local_machine import LocalMachine
from sluice.collection.machine import ProcessState, Status
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.runtime.settings import Settings

EDGE = Agent("web1", "edge", "t", "memory", 10_000, 29_300)


def reading(
    size: float = 0,
    taken: float = 100,
    put: float = 100,
    sink: dict[str, float] | None = None,
    **channel: float,
) -> AgentCounters:
    return AgentCounters(
        {
            "SOURCE.files": {"StartTime": 1.0, "ChannelWriteFail": 0.0},
            "CHANNEL.buffer": {
                "StartTime": 1.0,
                "ChannelSize": size,
                "ChannelFillPercentage": size / 100,
                "EventTakeSuccessCount": taken,
                "EventPutSuccessCount": put,
                **channel,
            },
            "SINK.to_0": {"StartTime": 1.0, "EventWriteFail": 0.0, **(sink or {})},
        }
    )


def test_a_healthy_agent_raises_nothing() -> None:
    first = judge(EDGE, reading(), None, 0)
    second = judge(EDGE, reading(size=50, taken=200), first, 5)
    assert (first.state, first.alerts, second.alerts) == ("running", {}, {})
    assert second.line() == "web1: running, channel 0 %"


@pytest.mark.parametrize(("size", "alerts"), [(7_900, []), (8_000, ["web1: channel"])])
def test_a_filling_channel(size: float, alerts: list[str]) -> None:
    assert list(judge(EDGE, reading(size=size), None, 0).alerts) == alerts


def test_a_channel_that_is_full_by_bytes() -> None:
    """Blocks of many lines fill a memory channel long before it has as many as it may have."""
    full = AgentCounters({**reading(size=900).counters, "CHANNEL.bytes": {"ChannelFillPercentage": 91.0}})
    assert judge(EDGE, full, None, 0).alerts == {"web1: channel": "web1: channel 91 % full"}


def test_a_failing_sink_is_named_while_it_fails() -> None:
    first = judge(EDGE, reading(sink={"EventWriteFail": 3}), None, 0)
    second = judge(EDGE, reading(sink={"EventWriteFail": 5}), first, 5)
    third = judge(EDGE, reading(sink={"EventWriteFail": 5}), second, 10)
    assert second.alerts == {"web1: sink to_0": "web1: sink to_0 fails (EventWriteFail +2)"}
    assert third.alerts == {}


def test_counters_of_a_restarted_agent_count_from_zero() -> None:
    before = judge(EDGE, reading(sink={"EventWriteFail": 30}), None, 0)
    after = judge(EDGE, reading(sink={"EventWriteFail": 1}), before, 5)
    assert after.alerts == {"web1: sink to_0": "web1: sink to_0 fails (EventWriteFail +1)"}


def test_lines_that_do_not_move() -> None:
    """Kafka's producer waits 120 s before it counts a failure."""
    health = judge(EDGE, reading(size=500), None, 0)
    for at in (5, 10, 15):
        health = judge(EDGE, reading(size=500), health, at)
        assert health.alerts == {}
    health = judge(EDGE, reading(size=500), health, 20)
    assert health.alerts == {"web1: sinks": "web1: 500 blocks of lines have not moved for 20 s"}
    assert judge(EDGE, reading(size=400, taken=200), health, 25).alerts == {}


def test_an_agent_that_lives_on_without_its_source() -> None:
    """For example, because it may not read its log."""
    parts = {name: values for name, values in reading().counters.items() if not name.startswith("SOURCE")}
    (message,) = judge(EDGE, AgentCounters(parts), None, 0).alerts.values()
    assert message == "web1: its source does not run: see `sluice logs flume-web1`"


def test_a_file_channel_that_cannot_write() -> None:
    (name,) = judge(EDGE, reading(Unhealthy=1), None, 0).alerts
    assert name == "web1: channel broken"


def test_an_agent_without_process_is_stopped(settings: Settings) -> None:
    assert check(settings, EDGE).state == "stopped"


def test_refusals_of_an_edge_that_is_held_are_no_failure(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = reading()
    refused.counters["SOURCE.files"]["ChannelWriteFail"] = 7.0
    monkeypatch.setattr(lifecycle, "counters", lambda *_: refused)
    for held, alerts in ((False, ["web1: source"]), (True, [])):
        status = Status(ProcessState.ALIVE, age=1_000, held=held)
        monkeypatch.setattr(LocalMachine, "status", lambda self, agent, now=status: now)
        assert list(check(settings, EDGE).alerts) == alerts


@pytest.mark.parametrize(
    ("size", "taken", "drained"),
    [(0, 100, True), (1, 99, False), (0, 99, False)],
    ids=["empty", "waiting", "taken by a sink but not yet acknowledged"],
)
def test_drained(size: float, taken: float, drained: bool) -> None:
    assert reading(size=size, taken=taken).drained is drained


def test_an_agent_without_its_source_is_not_complete() -> None:
    whole = reading()
    assert whole.complete
    assert not AgentCounters({k: v for k, v in whole.counters.items() if not k.startswith("SOURCE")}).complete


@pytest.fixture
def endpoint() -> Iterator[int]:
    """Answers as an agent does: every value is text."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"CHANNEL.buffer": {"ChannelSize": "7", "Type": "CHANNEL"}}')

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_metrics_are_read_as_numbers(endpoint: int) -> None:
    assert metrics.read(endpoint).counters == {"CHANNEL.buffer": {"ChannelSize": 7.0}}


@pytest.mark.parametrize(
    "answer",
    [
        b"[1]",
        b"null",
        b'{"CHANNEL.buffer": [1]}',
        b'{"CHANNEL.buffer": {"ChannelSize": null}}',
        b'{"CHANNEL.buffer": {"ChannelSize": [1]}}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_an_answer_that_is_none_of_an_agent(answer: bytes) -> None:
    with pytest.raises(MetricsUnreachable, match="no metrics at web1: "):
        metrics.parse(answer, "web1")


def test_numbers_that_are_none_are_left_out() -> None:
    answer = b'{"CHANNEL.buffer": {"ChannelSize": 1e999, "A": "nan", "B": 1' + b"0" * 400 + b', "C": "2"}}'
    assert metrics.parse(answer, "web1").channel == {"C": 2.0}


def test_agents_are_asked_past_a_proxy(endpoint: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert metrics.read(endpoint).counters


def test_an_agent_that_does_not_answer() -> None:
    with pytest.raises(MetricsUnreachable, match=r"no metrics at http://127\.0\.0\.1:1/"):
        metrics.read(1)


def test_generations_that_cannot_be_written_are_a_failure_of_the_source() -> None:
    """The files wait for which they cannot be written, and nothing else fails."""
    first, second = (
        AgentCounters({**reading().counters, "SOURCE.generations": {"EventReadFail": n}}) for n in (0.0, 2.0)
    )
    health = judge(EDGE, second, judge(EDGE, first, None, 0), 5)
    assert health.alerts == {"web1: source": "web1: source fails (EventReadFail +2)"}
