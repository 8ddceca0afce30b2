"""A topic of its own and archivers as processes; what Kafka and the archive's files hold of it."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition

from sluice.archive import layout
from sluice.archive.claim import Claims
from sluice.archive.verification import Verified, verify
from sluice.runtime.settings import ROOT, Settings
from sluice.storage.hdfs import HdfsFile, HdfsStore
from sluice.transmission.topics import Topics
from sluice_lab.archives import delete_archive
from sluice_lab.waiting import SECONDS

PLACE = ["offset", "line_in_record", "src_offset", "line"]
#: Offset, line in the record, src_offset, line.
Placed = tuple[int, int, int, bytes]
#: By partition, in the order of the offsets.
Contents = dict[int, list[Placed]]


def _topic() -> str:
    return f"archived_{secrets.token_hex(5)}"


@dataclass
class ArchiverTrial:
    """A topic of some partitions, and its archivers. `close` ends these, and deletes topic and archive.

    scratch: the folder of the archivers' logs and heartbeats. processes: all that were started.
    """

    settings: Settings
    scratch: Path
    partitions_made: int = 2
    topic: str = field(default_factory=_topic)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _read: dict[tuple[str, HdfsFile], list[Placed]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with Topics(self.settings) as topics:
            self.topic_id = topics.create(self.topic, partitions=self.partitions_made).id

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        admin = KafkaAdminClient(bootstrap_servers=self.settings.kafka.bootstrap)
        admin.delete_topics([self.topic])
        admin.close()
        delete_archive(self.settings, self.topic)

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
        job = [sys.executable, str(ROOT / "jobs" / "archiver.py"), "--topic", self.topic]
        command = [*job, "--progress", str(progress), "--member", member]
        with (self.scratch / f"log-{len(self.processes)}.txt").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def log(self, process: subprocess.Popen[bytes]) -> str:
        """What the archiver has said."""
        return (self.scratch / f"log-{self.processes.index(process)}.txt").read_text()

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Stop an archiver in an orderly way; its exit code."""
        process.send_signal(signal.SIGTERM)
        return process.wait(SECONDS)

    def claims(self, partition: int = 0) -> Claims:
        return Claims(HdfsStore.of(self.settings), self.directory(partition))

    def directory(self, partition: int = 0) -> str:
        """The folder of the partition's files in HDFS."""
        return layout.partition_directory(self.settings, self.topic, self.topic_id, partition)

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

    def verified(self) -> dict[tuple[str, int], Verified]:
        """What `sluice archive verify` finds, by topic id and partition."""
        return {(each.topic_id, each.partition): each for each in verify(self.settings, self.topic)}

    def ends(self) -> dict[tuple[str, int], int]:
        """Where each partition of the archive ends. Raises RuntimeError if one has a problem."""
        found = self.verified()
        if problems := [problem for each in found.values() for problem in each.problems]:
            raise RuntimeError(f"the archive of {self.topic} is not whole: {'; '.join(problems)}")
        return {place: each.next for place, each in found.items()}

    def _rows(self, path: str) -> list[Placed]:
        file = pq.ParquetFile(pa.BufferReader(HdfsStore.of(self.settings).read(path)))
        columns = [name for name in PLACE if name in file.schema_arrow.names]
        rows = file.read(columns=columns).to_pylist()
        return [tuple(row.get(name, 0) for name in PLACE) for row in rows]
