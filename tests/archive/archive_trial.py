"""A trial of the archive: its own topic, its archivers, and what Kafka and HDFS hold."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from sluice.archive import layout
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.verification import Verified, verify
from sluice.runtime.settings import ROOT, Settings
from sluice.storage.hdfs import HdfsFile, HdfsStore
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from tests.identities import record_key, to_headers
from tests.waiting import SECONDS, until

PLACE = ["offset", "line_in_record", "src_offset", "line"]
#: Offset, line in the record, src_offset, line.
Placed = tuple[int, int, int, bytes]
#: By partition, in the order of the offsets.
Contents = dict[int, list[Placed]]


@dataclass
class Trial:
    """A topic of some partitions, its archive, and methods to handle both."""

    settings: Settings
    topic: str
    scratch: Path
    sent: int = 0
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    partitions_made: int = 2
    _read: dict[tuple[str, HdfsFile], list[Placed]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with Topics(self.settings) as topics:
            self.topic_id = topics.create(self.topic, partitions=self.partitions_made).id

    def recreate(self) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.settings.kafka.bootstrap)
        admin.delete_topics([self.topic])
        admin.close()
        with Topics(self.settings) as topics:

            def made() -> str | None:
                found = topics.create(self.topic, partitions=self.partitions_made).id
                return found if found != self.topic_id else None

            self.topic_id = until(made, what="the topic is new")

    def place(self, partition: int = 0) -> ArchivedPartition:
        return ArchivedPartition(self.topic, self.topic_id, partition)

    def claims(self, partition: int = 0) -> Claims:
        return Claims(HdfsStore.of(self.settings), self.directory(partition))

    def directory(self, partition: int = 0) -> str:
        return layout.partition_directory(self.settings, self.topic, self.topic_id, partition)

    def produce(self, lines: int, *, partition: int | None = None, transactions: int = 0) -> None:
        """Send so many lines, in so many `transactions` if any: each leaves a gap in the offsets."""
        options = {"transactional_id": secrets.token_hex(4)} if transactions else {}
        producer = KafkaProducer(bootstrap_servers=self.settings.kafka.bootstrap, linger_ms=5, **options)
        if transactions:
            producer.init_transactions()
        for part in range(max(1, transactions)):
            if transactions:
                producer.begin_transaction()
            for _ in range(part, lines, max(1, transactions)):
                n, self.sent = self.sent, self.sent + 1
                line = b'10.0.0.%d - - [%02d/May/2015:10:05:03 +0000] "GET /%d HTTP/1.1" 200 17' % (
                    n % 50,
                    17 + n % 3,
                    n,
                )
                producer.send(
                    self.topic,
                    line,
                    key=record_key(line),
                    headers=to_headers("web1", "access.log", n * 100, line, identity_key(self.settings)),
                    partition=partition,
                )
            if transactions:
                producer.commit_transaction()
        producer.flush()
        producer.close()

    def produce_blocks(self, lines: int, *, most: int, again: bool = False) -> None:
        """Send so many lines in blocks of up to `most`, the largest ones first.

        again: the same lines as the last time, cut elsewhere; they are doubles.
        """
        producer = KafkaProducer(bootstrap_servers=self.settings.kafka.bootstrap, linger_ms=5)
        first = self.sent - lines if again else self.sent
        numbers = list(range(first, first + lines))
        size = most
        while numbers:
            own, numbers = numbers[:size], numbers[size:]
            size = size - 1 or most
            text = [b"%99d" % n for n in own]
            body, begin = b"\n".join(text), own[0] * 100
            key = identity_key(self.settings)
            headers = to_headers("web1", "access.log", begin, body, key)
            producer.send(self.topic, body, headers=headers, partition=own[0] // most % 2)
        producer.flush()
        producer.close()
        self.sent = first + lines

    def delete_records(self, partition: int, before: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self.settings.kafka.bootstrap)
        admin.delete_records({TopicPartition(self.topic, partition): before})
        admin.close()

    def in_kafka(self) -> Contents:
        """What Kafka has, a line at a time."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.settings.kafka.bootstrap, enable_auto_commit=False, max_poll_records=10_000
        )
        partitions = [TopicPartition(self.topic, number) for number in range(self.partitions_made)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        found: Contents = {number: [] for number in range(self.partitions_made)}
        while any(consumer.position(at) < ends[at] for at in partitions):
            for at, messages in consumer.poll(timeout_ms=500, max_records=10_000).items():
                for m in messages:
                    begin = int(dict(m.headers)["src_offset"])
                    for number, line in enumerate(m.value.split(b"\n")):
                        found[at.partition].append((m.offset, number, begin, line))
                        begin += len(line) + 1
        consumer.close()
        return found

    def archived(self) -> Contents:
        """What the archive's files hold, straight from HDFS."""
        found: Contents = {number: [] for number in range(self.partitions_made)}
        for partition in found:
            folder = self.directory(partition)
            for file in self.claims(partition).files():
                # Tests ask ten times a second. A file that was replaced has another time.
                if (folder, file) not in self._read:
                    self._read[folder, file] = self._rows(f"{folder}/{file.name}")
                found[partition] += self._read[folder, file]
        return found

    def _rows(self, path: str) -> list[Placed]:
        file = pq.ParquetFile(pa.BufferReader(HdfsStore.of(self.settings).read(path)))
        columns = [name for name in PLACE if name in file.schema_arrow.names]
        rows = file.read(columns=columns).to_pylist()
        return [tuple(row.get(name, 0) for name in PLACE) for row in rows]

    def archives_everything(self) -> bool:
        found = self.archived()
        return sum(map(len, found.values())) >= self.sent and found == self.in_kafka()

    def assert_exact(self) -> None:
        """The archive has what Kafka has: no line more, none less, none twice."""
        try:
            until(self.archives_everything, what="the archive has every line")
        except AssertionError:
            archive, kafka = self.archived(), self.in_kafka()
            for partition, lines in kafka.items():
                places = [(offset, number) for offset, number, *_ in archive[partition]]
                assert places == sorted(set(places))
                assert archive[partition] == lines
            raise

    def process(self, fault: str = "", member: str = "archiver", **limits: Any) -> subprocess.Popen[bytes]:
        """An archiver as a process of its own; `fault` names the point where it dies."""
        limits = {"max_lines": 500, "max_age_seconds": 1.0} | limits
        environment = {
            **os.environ,
            "SLUICE_INSTANCE": self.settings.instance,
            "SLUICE_FAULT": fault,
            **{f"SLUICE_ARCHIVE__{name.upper()}": str(value) for name, value in limits.items()},
        }
        progress = self.scratch / f"progress-{len(self.processes)}.json"
        command = [
            sys.executable,
            ROOT / "jobs" / "archiver.py",
            "--topic",
            self.topic,
            "--progress",
            progress,
            "--member",
            member,
        ]
        with (self.scratch / f"log-{len(self.processes)}.txt").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        return (self.scratch / f"log-{self.processes.index(process)}.txt").read_text()

    def partitions(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The heartbeat of a process: its partitions' progress."""
        path = self.scratch / f"progress-{self.processes.index(process)}.json"
        if not path.exists():
            return {}
        found: dict[str, Any] = json.loads(path.read_text())["topics"][self.topic]["partitions"]
        return found

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(SECONDS)


@contextmanager
def trial_of(settings: Settings, scratch: Path, partitions: int = 2) -> Iterator[Trial]:
    """A trial with a topic of its own; all of it is gone at the end."""
    trial = Trial(settings, f"h4_{secrets.token_hex(5)}", scratch, partitions_made=partitions)
    try:
        yield trial
    finally:
        for process in trial.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        admin = KafkaAdminClient(bootstrap_servers=settings.kafka.bootstrap)
        admin.delete_topics([trial.topic])
        admin.close()
        HdfsStore.of(settings).delete(f"{settings.hdfs.raw}/{trial.topic}", recursive=True)


@dataclass
class Here:
    """An archiver in this process."""

    heartbeat: Path
    stopping: threading.Event
    thread: threading.Thread
    topic: str

    def partition(self, number: int = 0) -> dict[str, Any]:
        if not self.heartbeat.exists():
            return {}
        state = json.loads(self.heartbeat.read_text())["topics"][self.topic]
        found: dict[str, Any] = state["partitions"].get(str(number), {})
        return found

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join(60)
        assert not self.thread.is_alive()


def verified(trial: Trial) -> dict[tuple[str, int], Verified]:
    """What `sluice archive verify` finds, by topic id and partition."""
    return {(each.topic_id, each.partition): each for each in verify(trial.settings, trial.topic)}


def ends(trial: Trial) -> dict[tuple[str, int], int]:
    """Where each partition of the archive ends; none may have a problem."""
    found = verified(trial)
    assert not [each.problem for each in found.values() if each.problem]
    return {place: each.next for place, each in found.items()}


def sluice_archive(trial: Trial, command: str) -> subprocess.CompletedProcess[str]:
    """`sluice archive COMMAND` on the trial's topic."""
    program = [sys.executable, "-m", "sluice.cli.main", "--instance", trial.settings.instance]
    return subprocess.run(
        [*program, "archive", command, trial.topic], capture_output=True, text=True, check=False
    )
