"""What a line costs on its way from a file to Kafka: the CPU time of an edge and of a collector."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.partitioner.default import murmur2

from sluice.collection import deploy
from sluice.collection.hosting import machine_of
from sluice.runtime.settings import Settings
from sluice_lab.bench import stack, workload
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "flume"
LINES, QUICK_LINES = 1_000_000, 100_000
WARM_LINES = 200_000  # until the JVMs have compiled what they need
TEMPLATES = 100_000
PARTITIONS = 16
PORTS = 500  # from the instance's own: those of the bench's agents
#: What a line cost when each was an event of its own, in microseconds; measured on 2 cores of an Intel Xeon.
BEFORE = {"edge": 15.7, "collector": 58.1}
SHARE = 1 / 8
STRETCH = 256 << 10
NAMES = {"edge": "bench-front", "collector": "bench-gather"}
INVENTORY = f"""
topic: TOPIC
front_ends:
  - host: {NAMES["edge"]}
    files: ["{{home}}/frontends/access.%Y-%m-%d.log"]
    channel: memory
collectors:
  - name: {NAMES["collector"]}
"""
WHAT = """\
An edge with a memory channel and a collector (with a file channel, as always) in processes of their
own send {lines:,} lines of {size:.0f} bytes into the Kafka of instance `{instance}`, to a topic of
{partitions} partitions. The lines are appended to one file at once, after {warm:,} others have
warmed the agents up. CPU time is user and system time of the agent's process from the append until
all is in Kafka; then it is read back whole. *Before*: each line was an event of its own; measured
with the same bench. The second table is computed, not measured: how evenly so many files of so many
stretches load the partitions if stretches go to them in turn, and if each stretch went where the
hash of its key says."""


def run(quick: bool = False) -> Outcome:
    lines = QUICK_LINES if quick else LINES
    with stack.running() as settings, tempfile.TemporaryDirectory() as home:
        kafka = settings.kafka.model_copy(update={"partitions": PARTITIONS})
        changes = {"home": Path(home), "port_base": settings.port_base + PORTS, "kafka": kafka}
        with collecting(settings.model_copy(update=changes)) as (own, topic):
            text = b"\n".join([*workload.lines(TEMPLATES, 1).to_pylist(), b""])
            append(own, topic, text, WARM_LINES // TEMPLATES)
            spent, seconds, sent = append(own, topic, text, lines // TEMPLATES)
        instance = settings.instance
    what = WHAT.format(
        lines=lines, size=len(text) / TEMPLATES, instance=instance, partitions=PARTITIONS, warm=WARM_LINES
    )
    return outcome({tier: 1e6 * s / lines for tier, s in spent.items()}, lines / seconds, sent, what, quick)


def outcome(micros: dict[str, float], rate: float, records: int, what: str, quick: bool) -> Outcome:
    bars = [
        Bar(f"CPU of the {tier} a line over that before", micros[tier] / BEFORE[tier], SHARE, "most")
        for tier in BEFORE
    ]
    costs = Table(
        f"CPU time of Flume, {rate:,.0f} lines/s, {records:,} records",
        ["", "microseconds a line", "before"],
        [[tier, micros[tier], BEFORE[tier]] for tier in BEFORE],
    )
    return Outcome(NAME, what, bars, [costs, loads()], quick=quick)


@contextmanager
def collecting(settings: Settings) -> Iterator[tuple[Settings, str]]:
    """Agents of the bench's own and their topic; both are gone afterwards."""
    topic = f"bench_{NAME}_{secrets.token_hex(4)}"
    (settings.home / "collection.yaml").write_text(INVENTORY.replace("TOPIC", topic))
    try:
        deploy.apply(settings, stack.say)
        yield settings, topic
    finally:
        deploy.stop_all(settings, drain_seconds=5, log=stack.say)
        admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
        admin.delete_topics([topic])
        admin.close()


def append(settings: Settings, topic: str, text: bytes, times: int) -> tuple[dict[str, float], float, int]:
    """Append the text so many times and wait until Kafka has it.

    Returns the CPU seconds of each tier, the seconds that passed, and the number of records.
    """
    path = settings.home / "frontends" / "access.2026-01-01.log"
    ends, before, began = read_ends(settings, topic), cpu(settings), time.monotonic()
    with path.open("ab") as out:
        for _ in range(times):
            out.write(text)
    deploy.wait_drained(settings, 1_800)
    seconds = time.monotonic() - began
    spent = {tier: now - before[tier] for tier, now in cpu(settings).items()}
    size, records = read_back(settings, topic, ends)
    if size != len(text) * times:
        raise ValueError(f"Kafka has {size:,} bytes of {len(text) * times:,}")
    return spent, seconds, records


def cpu(settings: Settings) -> dict[str, float]:
    """The CPU seconds of each tier's agent so far."""
    found = {}
    for tier, name in NAMES.items():
        agent = deploy.agent(settings, name)
        pid = machine_of(settings, agent).status(agent).pid
        if not pid:
            raise RuntimeError(f"{name} does not run")
        times = psutil.Process(pid).cpu_times()
        found[tier] = times.user + times.system
    return found


def read_ends(settings: Settings, topic: str) -> dict[TopicPartition, int]:
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap)
    parts = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
    ends: dict[TopicPartition, int] = consumer.end_offsets(parts)
    consumer.close()
    return ends


def read_back(settings: Settings, topic: str, begin: dict[TopicPartition, int]) -> tuple[int, int]:
    """The bytes of all lines behind these offsets, newlines included, and the number of records."""
    size = records = 0
    end = read_ends(settings, topic)
    consumer = KafkaConsumer(bootstrap_servers=settings.kafka.bootstrap, max_partition_fetch_bytes=8 << 20)
    consumer.assign(list(end))
    for part in end:
        consumer.seek(part, begin.get(part, 0))
    while any(consumer.position(part) < end[part] for part in end):
        for found in consumer.poll(1_000).values():
            size += sum(len(record.value) + 1 for record in found)
            records += len(found)
    consumer.close()
    return size, records


def loads() -> Table:
    """The load of the busiest partition over the mean, by how a stretch finds its partition."""
    rows: list[list[Cell]] = []
    for files, stretches in ((1, 16), (1, 64), (1, 400), (4, 64), (16, 16), (100, 16), (1_000, 1)):
        names = [f"web{n}\0frontends/web{n}/access.2026-01-01.log".encode() for n in range(files)]
        turns = [murmur2(name) + at for name in names for at in range(stretches)]
        hashes = [murmur2(b"%b\0%d" % (name, at)) & 0x7FFFFFFF for name in names for at in range(stretches)]
        rows.append([f"{files:,} x {stretches}", imbalance(turns), imbalance(hashes)])
    title = f"Largest load of {PARTITIONS} partitions over the mean"
    return Table(title, ["files x stretches", "in turn", "hashed"], rows)


def imbalance(numbers: list[int]) -> float:
    counts = np.bincount(np.array(numbers, np.int64) % PARTITIONS, minlength=PARTITIONS)
    return float(counts.max() / counts.mean())
