"""A trial of the archive: its own topic, its archivers, and what Kafka and HDFS hold."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition

from sluice.archive.file import ArchivedPartition
from sluice.runtime.settings import Settings
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench.archiver_trial import ArchiverTrial
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import until
from tests.identities import record_key


@dataclass
class Trial(ArchiverTrial):
    """A trial that also sends lines, and knows what the archive must hold. sent: so many lines."""

    sent: int = 0

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

    def archives_everything(self) -> bool:
        found = self.archived()
        return sum(map(len, found.values())) >= self.sent and found == self.in_kafka()

    def assert_exact(self) -> None:
        """The archive has what Kafka has: no line more, none less, none twice."""
        try:
            until(self.archives_everything, what="the archive has every line")
        except TimeoutError:
            archive, kafka = self.archived(), self.in_kafka()
            for partition, lines in kafka.items():
                places = [(offset, number) for offset, number, *_ in archive[partition]]
                assert places == sorted(set(places))
                assert archive[partition] == lines
            raise

    def partitions(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        """The heartbeat of a process: its partitions' progress."""
        path = self.scratch / f"progress-{self.processes.index(process)}.json"
        if not path.exists():
            return {}
        found: dict[str, Any] = json.loads(path.read_text())["topics"][self.topic]["partitions"]
        return found


@contextmanager
def trial_of(settings: Settings, scratch: Path, partitions: int = 2) -> Iterator[Trial]:
    """A trial with a topic of its own; all of it is gone at the end."""
    with closing(Trial(settings, scratch, partitions)) as trial:
        yield trial


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


def sluice_archive(trial: Trial, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    """`sluice archive COMMAND` on the trial's topic."""
    program = [sys.executable, "-m", "sluice.cli.main", "--instance", trial.settings.instance]
    return subprocess.run(
        [*program, "archive", command, trial.topic, *options], capture_output=True, text=True, check=False
    )
