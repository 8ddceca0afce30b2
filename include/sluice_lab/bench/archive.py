"""The archiver: what a line costs alone and in a block, and how near it comes to the least it can do."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from sluice.archive import session
from sluice.archive.archiver import Archiver
from sluice.archive.assignor import LoadAssignor
from sluice.archive.file import COMPRESSION_LEVEL, ArchivedPartition, of_records
from sluice.archive.heartbeat import Heartbeat
from sluice.runtime.settings import Settings
from sluice.stack.jobs import ARCHIVER
from sluice.stack.progress import ArchivedTopic, PartitionProgress
from sluice.storage.hdfs import HdfsStore
from sluice.transmission.decoding import Record
from sluice.transmission.identity import records
from sluice.transmission.mac import genuine, identity_key
from sluice.transmission.topics import Topics
from sluice_lab.bench import stack, workload
from sluice_lab.bench.headers import to_headers
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME = "archive"
SINGLES, IN_BLOCKS = 1_000_000, 6_000_000
PARTITIONS = 4
BLOCK_BYTES, STRETCH_BYTES = 64 << 10, 256 << 10
CPU_LIMIT, RATE_LIMIT = 0.25, 0.4  # docs/performance.md, "Tuning notes"
BEAT_SECONDS = 0.05
PATIENCE = 300.0
ARRIVAL_MS = 1_700_000_000_000

WHAT = """\
The archiver of one topic of {partitions} partitions on instance `{instance}`, in this process, with Kafka,
HDFS and PostgreSQL beside it. {singles:,} lines as records of their own, and {in_blocks:,} lines in blocks of
up to 64 KiB, as collectors send them. Time and CPU count from the first record to the end of the last file.
*Polling* reads the same blocks with the archiver's own consumer (kafka-python), and drops them. *The least*
that an archive of Parquet files needs is written as plainly as can be: one loop polls the same blocks, cuts
them into lines, and encodes the lines alone into files of the same size, which it drops."""


@dataclass(frozen=True)
class Took:
    """What a run over a topic took."""

    lines: int
    megabytes: float
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.megabytes / self.seconds

    def row(self, name: str) -> list[Cell]:
        return [name, self.lines, self.megabytes, self.seconds, self.rate, self.cpu / self.lines * 1e6]


def run(quick: bool = False) -> Outcome:
    lines = workload.lines(SINGLES // (20 if quick else 1), 600)
    with stack.running() as settings, BenchTopic(settings) as singles, BenchTopic(settings) as blocks:
        singles.send(([line.as_py()] for line in lines), len(lines))
        copies = IN_BLOCKS // SINGLES
        for _ in range(copies):
            blocks.send(cut(lines), len(lines))
        alone = singles.archive()
        blocks.poll()  # so that the page cache has what Kafka reads
        polled, leasts = blocks.poll(), [blocks.least()]
        together = blocks.archive()
        leasts.append(blocks.least())
        least = min(leasts, key=lambda took: took.seconds)
        stages = where_it_goes(settings, list(cut(lines))[:400])
        instance = settings.instance
    bars = [
        Bar(
            "archiver's CPU for a line in a block, share of that for a line alone",
            (together.cpu / together.lines) / (alone.cpu / alone.lines),
            CPU_LIMIT,
            "most",
            "",
        ),
        Bar("MB/s archived, share of the least's", together.rate / least.rate, RATE_LIMIT, unit=""),
    ]
    rows = [
        alone.row("archived, a line a record"),
        together.row("archived, blocks"),
        least.row("the least, blocks"),
        polled.row("polled, blocks"),
    ]
    columns = ["", "lines", "MB", "s", "MB/s", "CPU a line, us"]
    tables = [
        Table("The archiver", columns, rows),
        Table("Where a block's time goes, one thread", ["step", "ns a line"], stages),
    ]
    what = WHAT.format(
        partitions=PARTITIONS, instance=instance, singles=alone.lines, in_blocks=together.lines
    )  # fmt: skip
    return Outcome(NAME, what, bars, tables, quick=quick)


def cut(lines: pa.Array) -> Iterator[list[bytes]]:
    """The lines as an edge cuts them: full blocks that do not cross a stretch."""
    block: list[bytes] = []
    at = begin = 0
    for line in lines.to_pylist():
        full = at + len(line) - begin > BLOCK_BYTES
        if block and (full or at // STRETCH_BYTES != begin // STRETCH_BYTES):
            yield block
            block, begin = [], at
        block.append(line)
        at += len(line) + 1
    if block:
        yield block


class BenchTopic:
    """A topic of its own and its archive; both are deleted at the end."""

    def __init__(self, settings: Settings) -> None:
        self.name = f"bench_{secrets.token_hex(4)}"
        self._settings, self._lines, self._bytes, self._at = settings, 0, 0, 0
        self._key = identity_key(settings)

    def __enter__(self) -> BenchTopic:
        with Topics(self._settings) as topics:
            topics.create(self.name, partitions=PARTITIONS)
        return self

    def __exit__(self, *_: object) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._settings.kafka.bootstrap)
        admin.delete_topics([self.name])
        admin.close()
        HdfsStore.of(self._settings).delete(f"{self._settings.hdfs.raw}/{self.name}", recursive=True)

    def send(self, blocks: Iterator[list[bytes]], lines: int) -> None:
        """Send the blocks, each a record, one after the other in a file."""
        producer = KafkaProducer(
            bootstrap_servers=self._settings.kafka.bootstrap, linger_ms=20, compression_type="lz4",
            batch_size=256 << 10,
        )  # fmt: skip
        for number, block in enumerate(blocks):
            body = b"\n".join(block)
            headers = to_headers("web1", "access.2015-05-17.log", self._at, body, self._key)
            producer.send(self.name, body, headers=headers, partition=number % PARTITIONS)
            self._at += len(body) + 1
            self._bytes += len(body)
        producer.flush()
        producer.close()
        self._lines += lines

    def poll(self) -> Took:
        """Poll every record with the archiver's consumer."""
        clock = Clock()
        for _ in self._polled(clock):
            pass
        return self._took(clock)

    def least(self) -> Took:
        """Poll every record, cut it into lines, and encode these as Parquet."""
        clock, most = Clock(), self._settings.archive.max_lines
        held: list[pa.Array] = []
        for values in self._polled(clock):
            held.append(pc.list_flatten(pc.split_pattern(pa.array(values, pa.binary()), b"\n")))
            if sum(map(len, held)) >= most:
                _encoded(held)
                held = []
        if held:
            _encoded(held)
        return self._took(clock)

    def _polled(self, clock: Clock) -> Iterator[list[bytes]]:
        """The values of all records, as the archiver's consumer polls them."""
        assignor = LoadAssignor(self.name, dict, lambda: None)
        consumer: KafkaConsumer = session._consumer(self._settings, self.name, ARCHIVER, assignor)
        partitions = [TopicPartition(self.name, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        left, most = sum(consumer.end_offsets(partitions).values()), session.FIRST_POLL_RECORDS
        while left:
            if polled := consumer.poll(timeout_ms=session.POLL_MS, max_records=most):
                clock.begin()
                left -= sum(map(len, polled.values()))
                most = session.fitting(polled.values())
                yield [message.value for messages in polled.values() for message in messages]
        consumer.close(autocommit=False)

    def archive(self) -> Took:
        """Archive every record, into files as large as the settings make them."""
        clock, stop = Clock(), threading.Event()

        def look(partitions: Mapping[int, PartitionProgress]) -> None:
            taken = sum(each.buffered + each.lines for each in partitions.values())
            if taken:
                clock.begin()
            if taken >= self._lines:
                stop.set()

        before, session.BEAT_SECONDS = session.BEAT_SECONDS, BEAT_SECONDS
        limits = self._settings.archive.model_copy(update={"max_age_seconds": PATIENCE})
        settings = self._settings.model_copy(update={"archive": limits})
        with TemporaryDirectory() as folder:
            archiver = Archiver(settings, self.name, Watched(Path(folder) / "beat", look), stop)
            thread = threading.Thread(target=archiver.run)
            thread.start()
            if not stop.wait(PATIENCE):
                stop.set()
                thread.join()
                raise TimeoutError(f"{self._lines:,} lines are not archived after {PATIENCE:.0f} s")
            thread.join()
        session.BEAT_SECONDS = before
        return self._took(clock)

    def _took(self, clock: Clock) -> Took:
        seconds, cpu = clock.passed()
        took = Took(self._lines, self._bytes / 1e6, seconds, cpu)
        stack.say(f"{NAME}: {took}")
        return took


def _encoded(lines: list[pa.Array]) -> bytes:
    """A Parquet file of nothing but the lines, packed as the archive packs them."""
    out = pa.BufferOutputStream()
    table = pa.table({"line": pa.chunked_array(lines)})
    pq.write_table(table, out, compression="zstd", compression_level=COMPRESSION_LEVEL, use_dictionary=False)
    return bytes(out.getvalue())


class Clock:
    """Time and this process's CPU since the first `begin`."""

    def __init__(self) -> None:
        self._began: tuple[float, float] | None = None

    def begin(self) -> None:
        self._began = self._began or (time.perf_counter(), time.process_time())

    def passed(self) -> tuple[float, float]:
        wall, cpu = self._began or (0.0, 0.0)
        return time.perf_counter() - wall, time.process_time() - cpu


class Watched(Heartbeat):
    """A heartbeat that is looked at instead of written."""

    def __init__(self, path: Path, look: Callable[[Mapping[int, PartitionProgress]], None]) -> None:
        super().__init__(path)
        self._look = look

    def beat(self, topic: str, state: ArchivedTopic) -> None:
        self._look(state.partitions)


def where_it_goes(settings: Settings, blocks: Sequence[list[bytes]]) -> list[list[Cell]]:
    """What each step takes for a line of these blocks."""
    key, messages, at = identity_key(settings), list[Record](), 0
    for number, block in enumerate(blocks):
        body = b"\n".join(block)
        messages.append(Record(number, body, [*to_headers("web1", "a.log", at, body, key)], ARRIVAL_MS))
        at += len(body) + 1
    lines = sum(map(len, blocks))
    bodies = pa.array([m.value for m in messages], pa.binary())
    identity = [pa.array([m.headers[n][1] for m in messages], pa.binary()) for n in range(4)]
    found = list(records(0, messages, key))
    steps: list[tuple[str, Callable[[], object]]] = [
        ("mac", lambda: genuine(key, identity[:3], bodies, identity[3])),
        ("decode: mac, split, identity of each line", lambda: list(records(0, messages, key))),
        (
            "file: event times, Parquet, zstd",
            lambda: of_records(ArchivedPartition("logs", "id", 0), 0, found, 1),
        ),
    ]
    return [[name, best(step) / lines * 1e9] for name, step in steps]


def best(step: Callable[[], object]) -> float:
    """The least CPU of five runs, in seconds."""
    took = []
    for _ in range(5):
        began = time.process_time()
        step()
        took.append(time.process_time() - began)
    return min(took)
