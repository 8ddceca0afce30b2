"""For tests of the speed layer: lines in Kafka, the driver as a process, expected results.

The expected results are computed here in plain Python, a line at a time, from the lines alone.
"""

from __future__ import annotations

import contextlib
import json
import random
import re
import secrets
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from kafka import KafkaProducer

from sluice.runtime.settings import Settings
from sluice.stack.environment import environment
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.postgres import engine, migrate
from sluice.storage.tables import schema
from sluice.tasks.spec import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench.databases import administer, drop
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import SECONDS
from tests.identities import record_key

STAMP = re.compile(rb"\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\]")


def access_lines(count: int, *, seed: int, start: datetime | None = None) -> list[bytes]:
    """Access-log lines, one a second."""
    dice = random.Random(seed)  # noqa: S311 - not a secret
    at = start or datetime(2026, 3, 1, 23, 50, tzinfo=UTC)
    lines = []
    for n in range(count):
        client = f"10.0.{dice.randrange(4)}.{dice.randrange(250)}"
        stamp = (at + timedelta(seconds=n)).strftime("%d/%b/%Y:%H:%M:%S +0000")
        size = "-" if dice.random() < 0.05 else str(dice.randrange(100_000))
        status = dice.choice((200, 200, 200, 304, 404, 500))
        lines.append(
            f'{client} - - [{stamp}] "GET /p_{dice.randrange(30)} HTTP/1.1" {status} {size}'.encode()
        )
    return lines


@dataclass
class Expected:
    """What the two tasks must show for lines that are counted once each."""

    hits: Counter[tuple[int, str]] = field(default_factory=Counter)
    bytes: Counter[tuple[int, str]] = field(default_factory=Counter)
    counted: int = 0
    dead: int = 0

    def add(self, lines: Sequence[bytes]) -> None:
        for line in lines:
            stamp = STAMP.search(line)
            try:
                at = datetime.strptime(stamp[1].decode() if stamp else "", "%d/%b/%Y:%H:%M:%S %z")
            except ValueError:  # no date, or an impossible one
                self.dead += 1
                continue
            self.counted += 1
            seconds = int(at.timestamp())
            fields = line.decode().split(" ")
            self.hits[seconds // 60 * 60_000, fields[8]] += 1
            size = fields[9]
            self.bytes[seconds // 3600 * 3_600_000, fields[6]] += int(size) if size != "-" else 0


@dataclass
class Source:
    """A front-end's file, as Flume would send it."""

    producer: KafkaProducer
    topic: str
    key: bytes
    host: str = "web1"
    src_file: str = "/var/log/access-2026-03-01.log"
    size: int = 0

    def append(self, lines: Sequence[bytes]) -> int:
        """Send new lines; returns where the first of them begins in the file."""
        begin = self.size
        self.size = self.send(lines, begin)
        return begin

    def send(self, lines: Sequence[bytes], offset: int, partition: int | None = None) -> int:
        """Send lines that begin at `offset`, new or not; returns where they end."""
        for line in lines:
            headers = to_headers(self.host, self.src_file, offset, line, self.key)
            self.producer.send(
                self.topic, line, key=record_key(line) or None, headers=headers, partition=partition
            )
            offset += len(line) + 1
        self.producer.flush()
        return offset


class SpeedTest:
    """A topic with two tasks, used by one test alone, in the running platform.

    It has a database of its own, or that of another such topic.
    """

    def __init__(self, settings: Settings, home: Path, beside: SpeedTest | None = None) -> None:
        self.home = home
        self.topic = f"online_{secrets.token_hex(4)}"
        self.settings = settings = beside.settings if beside else _own_database(settings, self.topic)
        self._beside = beside
        self.engine = engine(settings)
        self.hbase = HBase.of(settings, patience=30)
        self.store = TaskStore(self.engine)
        self.expected = Expected()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.topics = Topics(settings)
        self.topics.create(self.topic)
        self.producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap, acks="all", linger_ms=5)
        self.source = Source(self.producer, self.topic, identity_key(settings))
        status = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
        path = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
        size = {"delimiter": " ", "index": 9}
        self.hits = self.apply("hits", period="1m", dimensions=[status], metrics=["count"])
        self.bytes = self.apply("bytes", period="1h", dimensions=[path], measure=size, metrics=["sum"])

    def apply(self, name: str, **spec: object) -> str:
        """Create or change a task; returns its label."""
        made = TaskSpec.model_validate({"name": f"{name}_{self.topic}", "topic": self.topic, **spec})
        change = self.store.apply([made], "test")[0]
        return f"{change.task_id}v{change.version}"

    def append(self, lines: Sequence[bytes]) -> int:
        self.expected.add(lines)
        return self.source.append(lines)

    def start(self, *arguments: str, fault: str = "", **more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(self.settings.root / "jobs" / "speed_layer.py"), "--topic", self.topic]
        env = self.environment(**more) | {"SLUICE_FAULT": fault}
        with (self.home / "speed_layer.log").open("ab") as log:
            process = subprocess.Popen([*command, *arguments], env=env, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def environment(self, **more: str) -> dict[str, str]:
        """What a driver has in its environment."""
        return environment(self.settings) | {
            "SLUICE_SPEED__BATCH_SECONDS": "0.2",
            "SLUICE_POSTGRES__DATABASE": self.settings.postgres.database,
            # Progress, checkpoints and Spark's files go to the test's home; the secrets are in the other one.
            "SLUICE_HOME": str(self.home),
            "SLUICE_POSTGRES__PASSWORD": self.settings.postgres.password,
            "SLUICE_KAFKA__IDENTITY_KEY": self.settings.kafka.identity_key,
            **more,
        }

    @contextlib.contextmanager
    def running(self, **more: str) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start(**more)
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0

    def progress(self) -> dict[str, Any]:
        """What the driver reports about the topic."""
        path = self.home / "run" / "speed_layer.progress.json"
        return dict(json.loads(path.read_text())["topics"][self.topic])

    def ends(self) -> dict[str, int]:
        return {str(partition): end for partition, end in self.topics.ends(self.topic).items()}

    def commits(self) -> list[sa.Row[tuple[object, ...]]]:
        t = schema.commits
        with self.engine.connect() as connection:
            return list(connection.execute(sa.select(t).where(t.c.topic == self.topic).order_by(t.c.seq)))

    def committed(self) -> int:
        """How many commits there are."""
        t = schema.commits
        with self.engine.connect() as connection:
            query = sa.select(sa.func.count()).select_from(t).where(t.c.topic == self.topic)
            return connection.scalar(query) or 0

    def projected(self) -> int:
        t = schema.projections.c
        with self.engine.connect() as connection:
            return connection.scalar(sa.select(t.seq).where(t.topic == self.topic)) or 0

    def caught_up(self) -> bool:
        """Whether the newest commit has all records, and its results are shown.

        Tests ask ten times a second, so Kafka is asked only once the rest is so.
        """
        t = schema.commits.c
        newest = sa.select(t.seq, t.end).where(t.topic == self.topic).order_by(t.seq.desc()).limit(1)
        with self.engine.connect() as connection:
            found = connection.execute(newest).one_or_none()
        return found is not None and self.projected() == found.seq and found.end == self.ends()

    def total(self, name: str) -> int:
        return sum(commit.counts[name] for commit in self.commits())

    def results(self, label: str) -> dict[tuple[int, str], int]:
        """The online results of a task version with one dimension: (period start, value) -> result."""
        found = {}
        for row, cells in self.hbase.scan(RESULTS, prefix=f"{label}_".encode()):
            _, _, value, _, period = row.decode().split("_")
            found[int(period), value.replace("%5F", "_")] = int(cells[b"r:o"])
        return found

    def check(self) -> None:
        """Assert that nothing is counted twice and nothing is missing, in every single series."""
        assert self.total("counted") == self.expected.counted
        assert self.total("dead") == self.expected.dead
        assert self.results(self.hits) == self.expected.hits
        assert self.results(self.bytes) == self.expected.bytes

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        self.producer.close()
        self.topics.close()
        self.hbase.close()
        if self._beside is not None:
            return
        self.engine.dispose()
        drop(self.settings, self.settings.postgres.database)


def _own_database(settings: Settings, name: str) -> Settings:
    """A separate database, so that the platform's speed layer does not see the test's tasks.

    HBase's tables are shared; there the numbers of tasks tell the tests apart.
    """
    administer(settings, f"CREATE DATABASE {name} OWNER {settings.postgres.user}")
    own = settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"database": name})})
    migrate(own)
    with engine(own).begin() as connection:
        first = 1_000_000 + secrets.randbelow(1_000_000_000)
        connection.execute(sa.text(f"ALTER SEQUENCE tasks_id_seq RESTART WITH {first}"))
    return own
