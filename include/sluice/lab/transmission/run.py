"""One run on live brokers: a group, a contender, and what happens to the group."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import KafkaConsumer, TopicPartition

from sluice.assignment.base import Partition
from sluice.lab.transmission.asked import Asked
from sluice.lab.transmission.brokers import BEAT_MS, SESSION_MS, Brokers
from sluice.lab.transmission.members import RECORD_BYTES, Consumer, Event
from sluice.lab.transmission.rivals import OURS
from sluice.lab.transmission.scenarios import Scenario, Step

#: How often CPU and the ends of the logs are looked at; a rate is sampled over two of these.
LOOK_SECONDS = 1.0
_CLIENT = "org.apache.kafka.clients.consumer."
_JAVA = {
    "range": f"{_CLIENT}RangeAssignor",
    "roundrobin": f"{_CLIENT}RoundRobinAssignor",
    "sticky": f"{_CLIENT}StickyAssignor",
    "cooperative-sticky": f"{_CLIENT}CooperativeStickyAssignor",
    OURS: "sluice.lab.AskedAssignor",
}


@dataclass(frozen=True)
class Times:
    """When things happen in a run, in seconds. gap: between two steps, and after the last. settle: before."""

    settle: float
    gap: float


@dataclass
class Log:
    """Everything a run said.

    began and steps: seconds since 1970. looks: each member's CPU seconds, by time.
    """

    scenario: Scenario
    contender: str
    began: float = 0.0
    ended: float = 0.0
    steps: list[float] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    looks: list[tuple[float, dict[str, float]]] = field(default_factory=list)


def properties(contender: str, bootstrap: str, group: str, member: str, port: int) -> dict[str, str]:
    """The configuration of a member's client. port: where our assignor is asked."""
    common = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "client.id": member,
        "auto.offset.reset": "latest",
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


class Laboratory:
    """Brokers, consumers and our assignor, ready for one run after another."""

    def __init__(self, brokers: Brokers, consumers: Mapping[str, Consumer], asked: Asked) -> None:
        self._brokers, self._consumers, self._asked = brokers, consumers, asked
        self._runs = 0
        self._ends = KafkaConsumer(bootstrap_servers=brokers.bootstrap, client_id="sluice-lab-ends")
        self._positions: dict[Partition, int] = {}

    def close(self) -> None:
        self._ends.close(autocommit=False)

    def run(self, scenario: Scenario, contender: str, times: Times) -> Log:
        """The scenario under the contender."""
        self._runs += 1
        log = Log(scenario, contender)
        names = list(scenario.topics)
        # The new group begins at the logs' ends: what waits for the one before is no load of this one.
        self._positions.clear()
        self._look(scenario, time.time())
        for name in names:
            self._consumers[name].take()
            self._join(scenario, contender, name)
        log.began = time.time()
        self._watch(log, names, times.settle)
        for step in scenario.steps:
            log.steps.append(time.time())
            self._take_step(scenario, contender, step)
            self._watch(log, names, times.gap)
        log.ended = time.time()
        for name in names:
            self._consumers[name].leave()
        self._await_left(log, names)
        return log

    def _join(self, scenario: Scenario, contender: str, name: str) -> None:
        group = f"lab-{self._runs}-{contender}"
        wanted = properties(contender, self._brokers.bootstrap, group, name, self._asked.port)
        self._consumers[name].join(wanted, scenario.topics[name], scenario.speed(name))

    def _take_step(self, scenario: Scenario, contender: str, step: Step) -> None:
        match step.kind:
            case "leave":
                self._consumers[step.what].leave()
            case "join":
                self._join(scenario, contender, step.what)
            case "freeze" | "thaw":
                self._consumers[step.what].freeze(step.kind == "freeze")
            case "grow":
                raise ValueError("topics of live scenarios stay as they are: the next run needs them")

    def _watch(self, log: Log, names: list[str], seconds: float) -> None:
        """Look every second, until so many are over."""
        deadline = time.time() + seconds
        while (left := deadline - time.time()) > 0:
            time.sleep(min(LOOK_SECONDS, left))
            self._take(log, names)
            now = time.time()
            log.looks.append((now, {name: self._consumers[name].cpu() for name in names}))
            self._look(log.scenario, now)

    def _take(self, log: Log, names: list[str]) -> None:
        for name in names:
            for event in self._consumers[name].take():
                log.events.append(event)
                if event.kind == "got":
                    for topic, number, _, following in event.what["of"]:
                        self._positions[Partition(topic, number)] = following
                    self._asked.processed(name, event.what["bytes"], event.what["busy"] / 1e3)

    def _look(self, scenario: Scenario, now: float) -> None:
        """Tell our assignor where the logs end; a partition that nobody has consumed yet has no lag."""
        wanted = {
            Partition(t, n): TopicPartition(t, n) for t, c in scenario.partitions.items() for n in range(c)
        }
        ends = self._ends.end_offsets(list(wanted.values()))
        seen = {
            partition: (
                float(ends[at] * RECORD_BYTES),
                float(self._positions.get(partition, ends[at]) * RECORD_BYTES),
            )
            for partition, at in wanted.items()
        }
        self._asked.saw(now, seen)

    def _await_left(self, log: Log, names: list[str]) -> None:
        waiting = set(names)
        deadline = time.time() + SESSION_MS / 1e3
        while waiting and time.time() < deadline:
            time.sleep(0.05)
            before = len(log.events)
            self._take(log, names)
            waiting -= {event.member for event in log.events[before:] if event.kind in ("left", "failed")}
