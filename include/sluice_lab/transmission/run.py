"""One run on live brokers: a group, a contender, and what happens to the group."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import psutil
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from sluice.assignment.base import AssignedPartition
from sluice_lab.transmission.assignor_server import AssignorServer
from sluice_lab.transmission.brokers import BEAT_MS, SESSION_MS, Brokers
from sluice_lab.transmission.members import RECORD_BYTES, Consumer, MemberEvent, Producer
from sluice_lab.transmission.ownership import unsettled
from sluice_lab.transmission.rivals import OURS
from sluice_lab.transmission.scenarios import ARRIVES, GroupScenario, ScenarioStep

#: How often CPU, the ends of the logs and the group are looked at.
LOOK_SECONDS = 0.5
#: A look at the ends of the logs that takes longer is left out.
_ENDS_MS = 2_000
#: How often a client looks for new partitions; Kafka's default of five minutes would be the whole result.
METADATA_MS = 2_000
_CLIENT = "org.apache.kafka.clients.consumer."
_JAVA = {
    "range": f"{_CLIENT}RangeAssignor",
    "roundrobin": f"{_CLIENT}RoundRobinAssignor",
    "sticky": f"{_CLIENT}StickyAssignor",
    "cooperative-sticky": f"{_CLIENT}CooperativeStickyAssignor",
    OURS: "sluice.lab.AskedAssignor",
}


@dataclass(frozen=True)
class GroupTimes:
    """How long a run stays in each phase, in seconds.

    settle: at least, before the first step. gap: at least, after each step. most: a phase lasts until the
    group is stable, but no longer than this.
    """

    settle: float
    gap: float
    most: float = 45.0


@dataclass
class GroupRunLog:
    """Everything a run said.

    gap: the least seconds between two steps. began and steps: seconds since 1970. settled: whether the group
    was stable at the end of each phase. looks: each member's CPU seconds, by time. busy: processors that
    other programs used meanwhile. arrives: bytes a second of all partitions of paper 003's group, if all are
    ordinary ones. pinned, cores: processors that each consumer could use, and that the machine has. problems:
    what went wrong, in words.
    """

    scenario: GroupScenario
    contender: str
    gap: float
    began: float = 0.0
    ended: float = 0.0
    steps: list[float] = field(default_factory=list)
    settled: list[bool] = field(default_factory=list)
    events: list[MemberEvent] = field(default_factory=list)
    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    busy: float = 0.0
    arrives: float = ARRIVES
    pinned: int = 0
    cores: int = 0
    problems: list[str] = field(default_factory=list)


def properties(contender: str, bootstrap: str, group: str, member: str, port: int) -> dict[str, str]:
    """The configuration of a member's client. port: where our assignor is asked."""
    common = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": member,
        "auto.offset.reset": "latest",
        "metadata.max.age.ms": str(METADATA_MS),
    }
    if contender.startswith("kip848-"):
        kip848 = {"group.protocol": "consumer", "group.remote.assignor": contender.removeprefix("kip848-")}
        return common | kip848
    return common | {
        "partition.assignment.strategy": _JAVA[contender],
        "sluice.ask.port": str(port),
        "heartbeat.interval.ms": str(BEAT_MS),
        "session.timeout.ms": str(SESSION_MS),
    }


class GroupLaboratory:
    """Brokers, consumers and our assignor, ready for one run after another.

    pids: of other processes of the laboratory, such as the producer.
    """

    def __init__(
        self,
        brokers: Brokers,
        consumers: Mapping[str, Consumer],
        asked: AssignorServer,
        pids: Sequence[int] = (),
    ) -> None:
        self._brokers, self._consumers, self._asked = brokers, consumers, asked
        self._own = [
            psutil.Process(pid)
            for pid in (os.getpid(), *pids, *brokers.pids, *(each.pid for each in consumers.values()))
        ]
        self._group = ""
        self._ends = KafkaConsumer(
            bootstrap_servers=brokers.bootstrap, client_id="sluice-lab-ends", metadata_max_age_ms=METADATA_MS
        )
        self._positions: dict[AssignedPartition, int] = {}
        self._partitions: dict[str, int] = {}
        self._living: set[str] = set()
        self._grown = ExitStack()

    def close(self) -> None:
        self._grown.close()
        self._ends.close(autocommit=False)

    def run(self, scenario: GroupScenario, contender: str, times: GroupTimes) -> GroupRunLog:
        """The scenario under the contender."""
        # A group of its own: a member of a run that broke may still be in that one's.
        self._group = f"lab-{secrets.token_hex(4)}-{contender}"
        log = GroupRunLog(scenario, contender, times.gap)
        self._partitions, self._living = dict(scenario.partitions), set()
        # The new group begins at the logs' ends: what waits for the one before is no load of this one.
        self._positions.clear()
        self._look(time.time())
        for consumer in self._consumers.values():
            consumer.take()
        for name in scenario.topics:
            self._join(scenario, contender, name)
        log.began, used = time.time(), self._used()
        self._watch(log, times.settle, times.most)
        for step in scenario.steps:
            log.steps.append(time.time())
            self._take_step(scenario, contender, step)
            self._watch(log, times.gap, times.most)
        log.ended = time.time()
        log.busy = max(0.0, (self._used() - used) / (log.ended - log.began))
        self._grown.close()
        for name in scenario.topics:
            self._consumers[name].leave()
        self._await_left(log)
        log.problems += self._asked.problems()
        return log

    def _join(self, scenario: GroupScenario, contender: str, name: str) -> None:
        wanted = properties(contender, self._brokers.bootstrap, self._group, name, self._asked.port)
        self._consumers[name].join(wanted, scenario.topics[name], scenario.speed(name))
        self._living.add(name)

    def _take_step(self, scenario: GroupScenario, contender: str, step: ScenarioStep) -> None:
        match step.kind:
            case "leave":
                self._consumers[step.what].leave()
                self._living.remove(step.what)
            case "join":
                self._join(scenario, contender, step.what)
            case "freeze":
                self._consumers[step.what].freeze(True)
                self._living.remove(step.what)
            case "thaw":
                self._consumers[step.what].freeze(False)
                self._living.add(step.what)
            case "grow":
                self._grow(scenario, *step.grows())

    def _grow(self, scenario: GroupScenario, topic: str, count: int) -> None:
        """Add partitions, and a producer for them."""
        fresh = [AssignedPartition(topic, number) for number in range(self._partitions[topic], count)]
        self._brokers.grow(topic, count)
        self._partitions[topic] = count
        rates = {each: scenario.load(each) for each in fresh}
        producer = self._grown.enter_context(Producer(self._brokers.bootstrap, rates))
        self._own.append(psutil.Process(producer.pid))

    def _watch(self, log: GroupRunLog, least: float, most: float) -> None:
        """Look twice a second, until `least` seconds are over and the group is stable, or `most` are over."""
        began = time.monotonic()
        while True:
            time.sleep(LOOK_SECONDS)
            self._take(log)
            now = time.time()
            log.looks.append((now, {name: self._consumers[name].cpu() for name in log.scenario.topics}))
            self._look(now)
            took = time.monotonic() - began
            if took < least:
                continue
            why = unsettled(log.events, now, self._living, self._partitions)
            if not why or took >= most:
                log.settled.append(not why)
                if why:
                    log.problems.append(f"phase {len(log.settled)} was not stable after {took:.0f} s: {why}")
                return

    def _take(self, log: GroupRunLog) -> None:
        for name in log.scenario.topics:
            for event in self._consumers[name].take():
                log.events.append(event)
                if event.kind == "failed":
                    log.problems.append(f"{name} failed: {event.what['why']}")
                if event.kind == "got":
                    for topic, number, _, following in event.what["of"]:
                        self._positions[AssignedPartition(topic, number)] = following
                    self._asked.processed(name, event.what["bytes"], event.what["busy"] / 1e3)

    def _look(self, now: float) -> None:
        """Tell our assignor where the logs end; a partition that nobody has consumed yet has no lag."""
        wanted = {
            AssignedPartition(t, n): TopicPartition(t, n)
            for t, count in self._partitions.items()
            for n in range(count)
        }
        try:
            ends = self._ends.end_offsets(list(wanted.values()), timeout_ms=_ENDS_MS)
        except (KafkaError, KeyError):
            # No broker said so in time. KeyError of kafka-python 3.0.12: a partition that was just added.
            return
        seen = {
            partition: (
                float(ends[at] * RECORD_BYTES),
                float(self._positions.get(partition, ends[at]) * RECORD_BYTES),
            )
            for partition, at in wanted.items()
        }
        self._asked.saw(now, seen)

    def _used(self) -> float:
        """The CPU seconds of all programs of the machine but the laboratory's."""
        of_all = psutil.cpu_times()
        own = [process.cpu_times() for process in self._own]
        return float(of_all.user + of_all.nice + of_all.system - sum(each.user + each.system for each in own))

    def _await_left(self, log: GroupRunLog) -> None:
        waiting = set(log.scenario.topics)
        deadline = time.monotonic() + SESSION_MS / 1e3
        while waiting and time.monotonic() < deadline:
            time.sleep(0.05)
            before = len(log.events)
            self._take(log)
            waiting -= {event.member for event in log.events[before:] if event.kind in ("left", "failed")}
