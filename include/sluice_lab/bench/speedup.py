"""The speed layer on a standalone Spark cluster of one worker and of two, each bound to a core."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from kafka import KafkaProducer

from sluice.runtime.settings import Settings
from sluice.stack.daemons.kafka import KAFKA
from sluice.stack.daemons.postgres import POSTGRES
from sluice.stack.environment import environment
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.tasks.store import TaskStore
from sluice.transmission.mac import identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench import workload
from sluice_lab.bench.archive import cut
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database
from sluice_lab.bench.headers import to_headers
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.spark_cluster import cluster
from sluice_lab.ports import free_ports

NAME = "speedup"
TOPIC = "logs"
TASKS, PARTITIONS = 64, 4
LINES, COPIES, SECONDS = 500_000, 14, 600  # a copy is the same lines at other places in the file
BATCH_MIB = 128
#: The first batches start the workers and compile.
WARM = 2
LIMIT = 1.7
RUN_SECONDS = 300.0
#: Results are projected at most so often: not while the lines are counted.
PROJECTION_SECONDS = 86_400

WHAT = f"""\
{{lines:,}} lines of 150 bytes wait in a topic of {PARTITIONS} partitions, in blocks as collectors send them.
The speed layer counts them for {TASKS} tasks in batches of about {BATCH_MIB} MiB on a standalone Spark
cluster, first of one worker, then of two. A worker has one core; it and its children are bound to one
(`taskset`). Kafka, PostgreSQL, the driver and the cluster's master run beside them on the same {{cores}}
cores, bound to none: what they take is what the second worker lacks. So HBase is emulated by a fault double
(`SlowHBase`: a call sleeps, and its bytes go to files), and results are not projected, which would be the
driver's work. The rate is that of all commits but the first {WARM}, by the times at which they were made."""


@dataclass(frozen=True)
class CommittedBatch:
    """A batch: when it was committed, and the lines that it counted."""

    at: datetime
    lines: int


def run(quick: bool = False) -> Outcome:
    copies = COPIES // 3 if quick else COPIES
    processors = [str(core) for core in sorted(os.sched_getaffinity(0))[:2]]
    with server(NAME, (POSTGRES, KAFKA)) as settings:
        with Topics(settings) as topics:
            topics.create(TOPIC, partitions=PARTITIONS)
        lines = fill(settings, workload.lines(LINES, SECONDS), copies)
        found = {}
        for workers in (processors[:1], processors):
            with database(settings, f"bench_{len(workers)}") as own:
                found[len(workers)] = counted(own, workers, lines, BATCH_MIB // (4 if quick else 1))
                sys.stderr.write(
                    f"  {NAME}: {len(workers)} workers: {rate(found[len(workers)]):,.0f} lines/s\n"
                )
    what = WHAT.format(lines=lines, cores=len(os.sched_getaffinity(0)))
    return outcome(found, what, quick)


def outcome(found: Mapping[int, Sequence[CommittedBatch]], what: str, quick: bool) -> Outcome:
    rates = {workers: rate(batches) for workers, batches in found.items()}
    rows: list[list[Cell]] = [
        [str(workers), rates[workers], len(found[workers]), rates[workers] / rates[1]] for workers in found
    ]
    bars = [Bar("lines a second, two workers over one", rates[2] / rates[1], LIMIT)]
    table = Table("Lines a second", ["workers", "lines/s", "batches", "speed-up"], rows)
    return Outcome(NAME, what, bars, [table], quick=quick)


def rate(batches: Sequence[CommittedBatch]) -> float:
    """Lines a second between the last of the first commits and the last of all."""
    begin, *others = batches[WARM - 1 :]
    return sum(batch.lines for batch in others) / (others[-1].at - begin.at).total_seconds()


def fill(settings: Settings, lines: pa.Array, copies: int) -> int:
    """Send the lines so many times, one after the other in a file; returns how many there are."""
    key, at, number = identity_key(settings), 0, 0
    producer = KafkaProducer(
        bootstrap_servers=settings.kafka.bootstrap, linger_ms=20, compression_type="lz4", batch_size=256 << 10
    )
    blocks = [b"\n".join(block) for block in cut(lines)]
    for _ in range(copies):
        for body in blocks:
            headers = to_headers("web1", "access.2015-05-17.log", at, body, key)
            producer.send(TOPIC, body, headers=headers, partition=number % PARTITIONS)
            at, number = at + len(body) + 1, number + 1
    producer.flush()
    producer.close()
    return len(lines) * copies


def counted(settings: Settings, workers: Sequence[str], lines: int, batch_mib: int) -> list[CommittedBatch]:
    """The batches in which a cluster of these workers counted all lines."""
    TaskStore(engine(settings)).apply(workload.tasks(TASKS), "bench")
    port, page = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    # This very checkout, for the driver and for the executors' Python.
    path = str(settings.root / "include")
    env = environment(settings) | {"PYTHONPATH": path, "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        env |= {
            "SLUICE_HOME": str(scratch / "home"),
            "SLUICE_PORT_BASE": str(settings.port_base),
            "SLUICE_NETWORK": "host",
            "SLUICE_SPARK__MASTER": master,
            "SLUICE_POSTGRES__DATABASE": settings.postgres.database,
            "SLUICE_POSTGRES__PASSWORD": settings.postgres.password,
            "SLUICE_KAFKA__IDENTITY_KEY": settings.kafka.identity_key,
            "SLUICE_SPEED__BATCH_BYTES": str(batch_mib << 20),
            "SLUICE_SPEED__PROJECTION_SECONDS": str(PROJECTION_SECONDS),
        }
        with cluster(env, scratch, master, page, workers), job(env, settings, scratch) as process:
            deadline = time.monotonic() + RUN_SECONDS
            while sum(batch.lines for batch in commits(settings)) < lines:
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (scratch / "speed_layer.log").read_text()[-2_000:]
                    raise RuntimeError(f"the speed layer did not count all lines:\n{log}")
                time.sleep(1.0)
            return commits(settings)


@contextmanager
def job(env: Mapping[str, str], settings: Settings, scratch: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The speed layer as a process; it is killed at the end, for what it would still do is not measured."""
    state = scratch / "state"
    state.mkdir()
    job_ = str(settings.root / "jobs" / "speed_layer.py")
    command = [sys.executable, "-m", "sluice_lab.bench.speedup_job", str(state), job_, "--topic", TOPIC]
    with (scratch / "speed_layer.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=env, cwd=settings.root, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def commits(settings: Settings) -> list[CommittedBatch]:
    """The batches that were committed so far."""
    c = schema.commits.c
    query = sa.select(c.committed_at, c.counts).where(c.topic == TOPIC).order_by(c.seq)
    with engine(settings).connect() as connection:
        return [CommittedBatch(row.committed_at, row.counts["counted"]) for row in connection.execute(query)]
