"""Running agents and the real Kafka: each line arrives once, or recognisably twice."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from sluice.collection import deploy, health, lifecycle, position
from sluice.collection.agent import Agent, folder
from sluice.collection.hosting import machine_of
from sluice.collection.inventory import load
from sluice.collection.pattern import Pattern
from sluice.collection.render import SINK_BATCH
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts
from sluice.traffic.generate import batches
from sluice_lab.waiting import SECONDS, until
from tests.collection import conftest
from tests.collection.follower import LIMIT, STRETCH

pytestmark = pytest.mark.stack

Identity = tuple[str, str, int]
HOSTS = ("front1", "front2")
SHORTEST = 99  # bytes of a made-up line at least
# Other names than usual, because a running collection may use the instance's database, and so its alerts.
INVENTORY = re.sub(r"collector(?=\d)", "gather", re.sub(r"web(?=\d)", "front", conftest.INVENTORY))


class Arrived(NamedTuple):
    """A line and the record that it came in."""

    identity: Identity
    line: bytes
    key: bytes
    partition: int


@dataclass
class Collected:
    """Agents that run in a directory and on ports of their own, into a topic of their own."""

    settings: Settings
    topic: str
    _arrived: list[Arrived] = field(default_factory=list)
    _next: dict[TopicPartition, int] = field(default_factory=dict)

    def deploy(self, inventory: str = INVENTORY) -> list[str]:
        """The names of the agents that changed."""
        (self.settings.home / "collection.yaml").write_text(inventory.replace("h5_logs", self.topic))
        return [change.agent for change in deploy.apply(self.settings)]

    def append(self, host: str, day: int, data: bytes) -> None:
        path = self.settings.home / "frontends" / host / f"access.2026-01-{day:02d}.log"
        with path.open("ab") as out:
            out.write(data)

    def kill(self, name: str) -> None:
        agent = deploy.agent(self.settings, name)
        os.kill(machine_of(self.settings, agent).status(agent).pid, signal.SIGKILL)
        until(lambda: not lifecycle.alive(self.settings, agent), poll=0.05)

    def pids(self) -> dict[str, int]:
        found = {a.name: machine_of(self.settings, a).status(a) for a in deploy.agents(self.settings)}
        return {name: status.pid for name, status in found.items() if status.pid}

    def await_lines(self, agent: Agent) -> None:
        """Wait until its channel holds something."""
        until(lambda: health.check(self.settings, agent).channel_size, what=f"{agent.name} holds something")

    def written(self) -> dict[Identity, bytes]:
        found = {}
        for front_end in load(self.settings).front_ends:
            known = position.generations(folder(self.settings, front_end.host) / position.GENERATIONS_FILE)
            for path in Pattern.parse(front_end.files[0], self.settings.home).files():
                offset = 0
                name = position.identity(path, self.settings.home, known)
                for line in path.read_bytes().split(b"\n")[:-1]:
                    found[front_end.host, name, offset] = line
                    offset += len(line) + 1
        return found

    def arrived(self) -> list[Arrived]:
        """Every line; only new records are fetched."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.settings.kafka.bootstrap,
            max_partition_fetch_bytes=32 << 20,
            fetch_max_bytes=64 << 20,
        )
        parts = [TopicPartition(self.topic, p) for p in consumer.partitions_for_topic(self.topic) or ()]
        consumer.assign(parts)
        ends = consumer.end_offsets(parts)
        for part in parts:
            consumer.seek(part, self._next.get(part, 0))
        while any(consumer.position(part) < ends[part] for part in parts):
            for records in consumer.poll(1_000).values():
                for record in records:
                    head = {name: value.decode() for name, value in record.headers}
                    offset = int(head["src_offset"])
                    for line in record.value.split(b"\n"):
                        identity = (head["host"], head["src_file"], offset)
                        self._arrived.append(Arrived(identity, line, record.key, record.partition))
                        offset += len(line) + 1
        self._next = {part: consumer.position(part) for part in parts}
        consumer.close()
        return self._arrived

    def doubles(self) -> int:
        """Prove that Kafka has exactly what was written; returns how many lines came twice.

        Waits until the agents are drained.
        """
        deploy.wait_drained(self.settings, 180)
        arrived = self.arrived()
        assert {each.identity: each.line for each in arrived} == self.written()
        return len(arrived) - len(self.written())


@pytest.fixture(scope="module")
def collected(stack: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    settings = stack.model_copy(
        update={"home": tmp_path_factory.mktemp("collection"), "port_base": stack.port_base + 500}
    )
    running = Collected(settings, f"h5_{secrets.token_hex(4)}")
    assert running.deploy() == ["gather1", "gather2", "front1", "front2"]
    yield running
    deploy.stop_all(settings, drain_seconds=5)
    admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
    admin.delete_topics([running.topic])
    admin.close()


def log(lines: int, seed: int) -> bytes:
    return b"".join(batches(lines, seed=seed, days=1))


def test_every_byte_arrives_with_its_identity(collected: Collected) -> None:
    noise = random.Random(1).randbytes(2 << 20).replace(b"\n", b"")  # noqa: S311
    odd = [
        b"",
        b" ",
        b"not \xff\xfe\x00 UTF-8",
        b"carriage return\r",
        b"\r",
        b"x" * 63 + b"\xc3\xa9y",
        noise,
        b"end",
    ]
    for host in HOSTS:
        collected.append(host, 1, log(2_000, seed=1))
        collected.append(host, 2, b"\n".join([*odd, b""]))
    assert collected.doubles() == 0


def test_keys_name_the_stretch_of_the_file(collected: Collected) -> None:
    for (host, src_file, offset), _, key, _ in collected.arrived():
        assert key == f"{host}\0{src_file}\0{offset // STRETCH}".encode()


def test_a_files_stretches_go_to_the_partitions_in_turn(collected: Collected) -> None:
    collected.append("front1", 11, log(20_000, seed=11))
    collected.append("front2", 11, log(20_000, seed=12))
    collected.doubles()
    places: dict[tuple[str, int], set[int]] = {}
    for (host, src_file, offset), _, _, partition in collected.arrived():
        if src_file.endswith("01-11.log"):
            places.setdefault((host, offset // STRETCH), set()).add(partition)
    assert len(places) > 2 * 8
    partitions = collected.settings.kafka.partitions
    for (host, stretch), found in places.items():
        (first,) = places[host, 0]
        assert found == {(first + stretch) % partitions}


def test_a_line_waits_for_its_end(collected: Collected) -> None:
    collected.append("front1", 3, b"the beginning ")
    time.sleep(2)
    collected.append("front1", 3, b"and the end\n")
    assert collected.doubles() == 0


@pytest.mark.parametrize("host", HOSTS)
def test_lines_that_come_one_by_one_do_not_wait_for_a_whole_batch(collected: Collected, host: str) -> None:
    first = f"the first of {host}".encode()
    collected.append(host, 10, first + b"\n")
    for _ in range(SINK_BATCH // 2):
        if any(each.line == first for each in collected.arrived()):
            break
        collected.append(host, 10, b"one more\n")
        time.sleep(0.6)
    else:
        pytest.fail(f"{SINK_BATCH // 2} lines were written and the first has not arrived")
    assert collected.doubles() == 0


def test_a_killed_collector_loses_nothing(collected: Collected) -> None:
    settings = collected.settings
    agent = deploy.agent(settings, "front1")
    before = health.check(settings, agent)
    for host in HOSTS:
        collected.append(host, 4, log(10_000, seed=4))
    time.sleep(0.5)
    collected.kill("gather1")
    dead = health.check(settings, deploy.agent(settings, "gather1"))
    assert dead.state == "dead"
    lines = health.report(engine(settings), [dead])
    assert lines == [f"ALERT {dead.alerts['gather1: dead']}"]
    assert health.report(engine(settings), [dead]) == []  # raised once

    def alert() -> str:
        collected.append("front1", 4, b"a line more\n")  # it is tried only while there are lines
        return health.check(settings, agent, before).alerts.get("front1: sink to_0", "")

    assert "fails" in until(alert)

    assert deploy.ensure(settings) == ["gather1"]
    assert deploy.ensure(settings) == []
    well = health.check(settings, deploy.agent(settings, "gather1"))
    assert health.report(engine(settings), [well]) == ["over: gather1: dead"]
    assert "gather1: dead" not in {a.name for a in alerts.open_alerts(engine(settings), health.SOURCE)}
    assert collected.doubles() <= 2 * SINK_BATCH * LIMIT / SHORTEST  # a transaction of each edge


def test_a_killed_memory_edge_sends_again_what_it_held(collected: Collected) -> None:
    before = collected.doubles()
    for host in HOSTS:
        collected.append(host, 5, log(10_000, seed=5))
    time.sleep(0.5)
    collected.kill("front1")
    collected.kill("front2")
    assert deploy.ensure(collected.settings) == ["front1", "front2"]
    # At most all that front1 has read, which is less than its channel may hold; front2's file channel kept
    # its lines, but may send a transaction twice.
    sent = sum(host == "front1" for host, _, _ in collected.written())
    assert collected.doubles() - before <= sent + SINK_BATCH * LIMIT / SHORTEST


def test_lines_wait_while_both_collectors_are_dead(collected: Collected) -> None:
    settings = collected.settings
    collected.kill("gather1")
    collected.kill("gather2")
    collected.append("front1", 6, (b"x" * 60_000 + b"\n") * 1_000)
    collected.append("front2", 6, log(12_000, seed=6))
    front1 = deploy.agent(settings, "front1")

    def full() -> health.Health | None:
        found = health.check(settings, front1)
        return found if "front1: channel" in found.alerts else None

    found = until(full, SECONDS, lambda: health.check(settings, front1))
    assert (found.channel_size or 0) < front1.capacity / 10  # it is full by bytes
    assert deploy.stop(settings, deploy.agent(settings, "front1"), drain_seconds=1) is False
    assert deploy.ensure(settings) == ["gather1", "gather2", "front1"]
    collected.doubles()


def test_only_what_changed_is_deployed_and_drained_first(collected: Collected) -> None:
    before, pids = collected.doubles(), collected.pids()
    for host in HOSTS:
        collected.append(host, 7, log(10_000, seed=7))
    changed = INVENTORY.replace("channel: memory", "channel: memory\n    capacity: 12000")
    assert collected.deploy(changed) == ["front1"]
    after = collected.pids()
    assert {name for name in pids if pids[name] != after[name]} == {"front1"}
    assert collected.doubles() == before
    assert collected.deploy(changed) == []


def test_an_agent_that_leaves_hands_over_everything_first(collected: Collected) -> None:
    before = collected.doubles()
    for host in HOSTS:
        collected.append(host, 8, log(5_000, seed=8))
    without = (
        INVENTORY.replace("  - name: gather2\n", "")
        .replace("[gather1, gather2]", "[gather1]")
        .replace("[gather2, gather1]", "[gather1]")
    )
    assert set(collected.deploy(without)) == {"front1", "front2", "gather2"}
    assert set(collected.pids()) == {"gather1", "front1", "front2"}
    assert collected.doubles() == before


def test_an_edge_that_cannot_hand_over_stays(collected: Collected) -> None:
    """Nobody takes the lines in its memory channel: the stop is refused and nothing is lost."""
    settings = collected.settings
    collectors = [a.name for a in deploy.agents(settings) if a.tier == "collector"]
    for name in collectors:
        collected.kill(name)
    collected.append("front1", 9, log(100, seed=9))
    agent = deploy.agent(settings, "front1")
    collected.await_lines(agent)
    with pytest.raises(lifecycle.AgentError, match="front1 still holds blocks of lines after 2 s"):
        lifecycle.stop(settings, agent, print, must_drain=True, drain_seconds=2)
    assert lifecycle.alive(settings, agent)
    assert deploy.ensure(settings) == collectors
    collected.doubles()


@pytest.mark.long
def test_ten_thousand_files_that_come_at_once(collected: Collected) -> None:
    """The edge dies while it reads them."""
    many = INVENTORY.replace(
        "collectors:\n  - name: gather1",
        """  - host: front3
    files: ["{home}/frontends/front3/access.%Y-%m-%d-%H.log"]
    channel: file
    collectors: [gather1, gather2]
collectors:
  - name: gather1""",
    )
    folder = collected.settings.home / "frontends" / "front3"
    folder.mkdir()
    first = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for number in range(10_000):
        at = first + dt.timedelta(hours=number)
        (folder / f"access.{at:%Y-%m-%d-%H}.log").write_text(f"file {number}\nits end\n")
    before = len(collected.arrived())
    collected.deploy(many)
    until(lambda: len(collected.arrived()) > before + 2_000, what="the first files are read")
    collected.kill("front3")
    assert deploy.ensure(collected.settings) == ["front3"]
    collected.doubles()


@pytest.mark.parametrize("host", HOSTS)
def test_an_edge_that_sends_again_makes_doubles_of_what_it_is_asked_for(
    collected: Collected, host: str
) -> None:
    """One has a memory channel, the other one on disk."""
    settings = collected.settings
    before = collected.doubles()
    agent = deploy.agent(settings, host)
    read_to = machine_of(settings, agent).read_to(agent)
    name, end = max(read_to.items(), key=lambda each: each[1])
    path = settings.home / name
    first = path.read_bytes().rindex(b"\n", 0, end // 2) + 1
    said: list[str] = []
    assert deploy.send_again(settings, {host: {name: first, "gone.log": 0}, "nobody": {}}, said.append) == {}
    assert f"{host}: {path} will be read again from byte {first:,} (was {end:,})" in said
    assert lifecycle.alive(settings, agent)
    assert collected.doubles() - before == path.read_bytes()[first:end].count(b"\n")
