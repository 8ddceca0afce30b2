"""What the laboratory does when one of its processes fails, or when it is killed itself."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
from kafka.errors import KafkaTimeoutError

from sluice.assignment.base import AssignedPartition
from sluice.assignment.smoothing import ObservedGroup
from sluice.cli.errors import FAILED, explain
from sluice_lab.processes import LaboratoryFailed
from sluice_lab.transmission import members, rivals, run
from sluice_lab.transmission.assignor_server import AssignorServer
from sluice_lab.transmission.members import MemberEvent
from sluice_lab.transmission.run import GroupLaboratory, GroupTimes
from sluice_lab.transmission.scenarios import PAPER, GroupScenario

#: A laboratory with a consumer that stands still. It says the consumer's pid and waits.
LABORATORY = """
import os, signal, subprocess, time
from sluice_lab.processes import end_with_laboratory
child = subprocess.Popen(["sleep", "600"], preexec_fn=end_with_laboratory)
os.kill(child.pid, signal.SIGSTOP)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_what_stands_still_ends_with_a_laboratory_that_is_killed() -> None:
    laboratory = subprocess.Popen([sys.executable, "-c", LABORATORY], stdout=subprocess.PIPE, text=True)
    assert laboratory.stdout is not None
    consumer = psutil.Process(int(laboratory.stdout.readline()))
    laboratory.kill()
    laboratory.wait()
    try:
        consumer.wait(10)
    except psutil.TimeoutExpired:
        consumer.kill()
        raise


#: A consumer or a producer that starts, says so, and ends with its input.
WAITS = 'import sys; print(\'{"event": "ready", "at": 0}\', flush=True); sys.stdin.read()'


@pytest.mark.slow
def test_all_consumers_are_pinned_to_the_same_processors_and_the_producer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "command", lambda *args: [sys.executable, "-c", WAITS])
    usable = sorted(os.sched_getaffinity(0))
    consumers = [members.Consumer(name) for name in ("C0", "C1")]
    try:
        assert all(consumer.ready(60) for consumer in consumers)
        pinned = [sorted(os.sched_getaffinity(consumer.pid)) for consumer in consumers]
    finally:
        for consumer in consumers:
            consumer.stop()
    assert pinned == [usable[1:] or usable] * 2
    with members.Producer("nowhere", {}) as producer:
        assert sorted(os.sched_getaffinity(producer.pid)) == usable


@pytest.mark.parametrize(("usable", "pinned"), [({0, 1, 2}, [1, 2]), ({3}, [3])])
def test_consumers_leave_the_first_processor_to_others_if_there_are_more(
    monkeypatch: pytest.MonkeyPatch, usable: set[int], pinned: list[int]
) -> None:
    monkeypatch.setattr(members.os, "sched_getaffinity", lambda pid: usable)
    assert members.processors() == pinned


def ask(asked: AssignorServer, question: Any) -> bytes:
    with socket.create_connection(("127.0.0.1", asked.port), timeout=10.0) as connection:
        connection.sendall(json.dumps(question).encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_a_question_that_cannot_be_answered_is_told_and_the_next_one_is_answered() -> None:
    member = {"topics": ["t0"], "owned": [], "generation": 1}
    with AssignorServer(ObservedGroup()) as asked:
        assert ask(asked, {"members": {"C0-x": None}, "partitions": {}}) == b""
        assert json.loads(ask(asked, {"members": {"C0-x": member}, "partitions": {"t0": 1}})) == {
            "C0-x": [["t0", 0]]
        }
        (problem,) = asked.problems()
    assert "could not be answered" in problem
    assert asked.problems() == []


def test_a_topic_that_the_leader_does_not_know_has_as_many_partitions_as_its_members_own() -> None:
    members = {
        "C0-x": {"topics": ["t0", "t1"], "owned": [["t0", 0], ["t0", 1]], "generation": 1},
    }
    found = AssignorServer(ObservedGroup()).answer(
        {"members": members, "partitions": {"t0": None, "t1": None}}
    )
    assert found == {"C0-x": [AssignedPartition("t0", 0), AssignedPartition("t0", 1)]}


@dataclass
class Consumer:
    """A member that fails when it joins."""

    name: str
    groups: list[str] = field(default_factory=list)
    events: list[MemberEvent] = field(default_factory=list)
    pid: int = field(default_factory=os.getpid)

    def join(self, properties: dict[str, str], topics: object, speed: float) -> None:
        self.groups.append(properties["group.id"])
        self.events.append(MemberEvent(self.name, "failed", 1.0, {"why": "java.lang.Error"}))

    def leave(self) -> None:
        self.events.append(MemberEvent(self.name, "left", 2.0, {}))

    def take(self) -> list[MemberEvent]:
        found, self.events = self.events, []
        return found

    def cpu(self) -> float:
        return 0.0


class Silent:
    """Brokers, and a client of them, that do not answer."""

    bootstrap, pids = "nowhere", ()

    def __init__(self, **configuration: object) -> None: ...

    def end_offsets(self, partitions: object, timeout_ms: float) -> None:
        raise KafkaTimeoutError("no broker")

    def close(self, autocommit: bool) -> None: ...


@pytest.mark.slow
def test_a_run_in_which_all_fails_ends_and_says_why_and_the_next_has_another_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "KafkaConsumer", Silent)
    consumer = Consumer("C0")
    scenario = GroupScenario("one", "One member", {"C0": ("t0",)}, {"t0": 1}, ())
    laboratory = GroupLaboratory(Silent(), {"C0": consumer}, AssignorServer(ObservedGroup()))  # type: ignore[arg-type, dict-item]
    logs = [laboratory.run(scenario, "range", GroupTimes(0.0, 0.0, most=0.1)) for _ in range(2)]
    laboratory.close()
    for log in logs:
        assert log.settled == [False]
        failed, unstable = log.problems
        assert failed == "C0 failed: java.lang.Error"
        assert "not stable" in unstable
    assert len(set(consumer.groups)) == 2


def test_assignors_that_cannot_be_asked_are_a_line_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "Error: no heap\n")

    monkeypatch.setattr(rivals, "command", lambda *args: ["java"])
    monkeypatch.setattr(rivals.subprocess, "run", failing)
    with pytest.raises(LaboratoryFailed) as caught:
        rivals.ask([("range", PAPER.group())])
    explained = explain(caught.value)
    assert explained is not None
    assert (explained.code, "no heap" in explained.message) == (FAILED, True)
