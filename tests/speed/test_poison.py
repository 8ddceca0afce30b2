"""Records that nobody can read stop neither layer: both name them, and count every line around them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.record import MemoryRecordsBuilder

from sluice.archive import chain
from sluice.archive.chain import Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.verification import NotArchived, places
from sluice.quality.audit import audit
from sluice.runtime.settings import ROOT, Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.tables import schema
from sluice_lab.archives import delete_archive
from sluice_lab.waiting import SECONDS, until
from tests.speed.speed_driver import SpeedTest, access_lines
from tests.transmission.batches import ALONE, NAMES, POISON, batch, lines, record, snappy

pytestmark = pytest.mark.stack

#: The poison is made for this bound.
BOUND = {"SLUICE_KAFKA__MAX_MESSAGE_BYTES": str(1 << 20), "SLUICE_KAFKA__MAX_UNPACKED_BYTES": str(1 << 20)}
#: A broker checks these before it takes them; no test sends them to it.
REFUSED = {"a wrong checksum"}
MANY_HEADERS = 200_000


@pytest.fixture
def speed(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    test = SpeedTest(stack, tmp_path)
    yield test
    delete_archive(stack, test.topic)
    test.close()


class Poisoner:
    """Sends batches as they are, byte by byte."""

    def __init__(self, settings: Settings, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._topic, self._bytes = topic, b""
        build = MemoryRecordsBuilder.close

        def close(builder: Any) -> None:
            build(builder)
            builder._buffer = bytearray(self._bytes)

        monkeypatch.setattr(MemoryRecordsBuilder, "close", close)
        self._producer = KafkaProducer(
            bootstrap_servers=settings.kafka.bootstrap, enable_idempotence=False, retries=0, acks="all"
        )

    def send(self, data: bytes) -> bool:
        """Whether the broker took it."""
        self._bytes = data
        try:
            self._producer.send(self._topic, b"in its place", partition=0).get(30)
        except KafkaError:
            return False
        return True

    def close(self) -> None:
        self._producer.close()


@contextmanager
def archiving(speed: SpeedTest) -> Iterator[None]:
    progress = speed.home / "archiver.json"
    command = [sys.executable, ROOT / "jobs" / "archiver.py", "--topic", speed.topic, "--progress", progress]
    environment = speed.environment(
        SLUICE_ARCHIVE__MAX_AGE_SECONDS="0.5", SLUICE_ARCHIVE__MAX_LINES="7", **BOUND
    )
    with (speed.home / "archiver.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    speed.processes.append(process)
    yield
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == 0


def archived(speed: SpeedTest) -> tuple[list[dict[str, Any]], int, int]:
    """The archive's rows of partition 0, after its chain was checked; its end, and its records."""
    store, rows, links, records = HdfsStore.of(speed.settings), list[dict[str, Any]](), list[Link](), 0
    found: list[tuple[ArchivedPartition, Claims]] = []
    with suppress(NotArchived):  # nothing yet
        found = places(speed.settings, speed.topic)
    for place, claims in found:
        if place.partition == 0:
            for file in claims.files():
                footer = claims.footer(file)
                path = claims.named(footer.name)
                links.append(Link(footer.first, footer.next, path))
                rows += pq.read_table(pa.BufferReader(store.read(path))).to_pylist()
                records += footer.records
    return rows, chain.check(speed.topic, 0, links), records


def poisons() -> list[tuple[str, bytes]]:
    """What a broker may take, by name."""
    bomb = record(0, bytes(2 << 20))
    return [
        *((name, data) for name, (data, _) in POISON.items() if name not in REFUSED),
        *((name, batch(0, [record(0, b"x"), each, record(2, b"x")])) for name, each in ALONE.items()),
        *((f"{NAMES[codec]} bomb", batch(0, [bomb], codec=codec)) for codec in (1, 2, 3, 4)),
        ("raw snappy bomb", batch(0, [bomb], codec=2, packed=snappy)),
        ("odd times", batch(0, [record(0, b"x")], time=-(1 << 62))),
        ("no value", batch(0, [record(0, None)])),
    ]


def send_all(poisoner: Poisoner) -> tuple[list[bytes], set[str]]:
    """Send all poison, with good lines before and after each; returns these lines, and what was taken."""
    good = iter(access_lines(200, seed=5))
    sent: list[bytes] = []

    def send_good(codec: int) -> None:
        own = [next(good), next(good)]
        sent.extend(own)
        assert poisoner.send(lines(0, *own, codec=codec))

    taken = set()
    for n, (name, poison) in enumerate(poisons()):
        send_good(n % 5)
        taken |= {name} if poisoner.send(poison) else set()
    sent.append(next(good))
    assert poisoner.send(batch(0, [record(0, sent[-1], [(b"h", b"v")] * MANY_HEADERS)]))
    send_good(2)
    return sent, taken


def test_poison_of_every_kind_is_named_by_both_layers_and_stops_none(
    speed: SpeedTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoner = Poisoner(speed.settings, speed.topic, monkeypatch)
    sent, taken = send_all(poisoner)
    poisoner.close()
    # The broker unpacks, and looks at lengths; it takes what it does not look at.
    assert {"a header's name that is not UTF-8", "an offset of after", "gzip bomb", "zstd bomb"} <= taken
    speed.expected.add(sent)

    with speed.running(**BOUND), archiving(speed):
        until(speed.caught_up)
        end = speed.ends()["0"]
        until(lambda: archived(speed)[1] == end, what="all is archived")
    assert speed.total("counted") == speed.expected.counted == len(sent)
    assert speed.results(speed.hits) == speed.expected.hits

    t = schema.dead_letters.c
    query = sa.select(t.offset, t.last_offset, t.reason, t.unreadable, t.line).where(t.topic == speed.topic)
    with speed.engine.connect() as connection:
        letters = connection.execute(query.where(t.unreadable.is_not(None)).order_by(t.offset)).all()
    rows, _, records = archived(speed)
    assert [(each.offset, each.last_offset, each.unreadable, each.line) for each in letters] == [
        (row["offset"], row["last_offset"], row["unreadable"], row["line"])
        for row in rows
        if row["unreadable"] is not None
    ]
    assert [each.reason for each in letters] == [each.unreadable.partition(":")[0] for each in letters]
    assert {each.reason for each in letters} == {"undecodable", "too_large"}
    assert len(letters) >= len(taken - {"odd times", "no value"})
    assert records == end  # no offset is missing, and none is there twice
    hops = audit(speed.settings, speed.topic, hive=False)
    assert hops.disagreements == ()
    assert (hops.online, hops.lost) == (len(sent), 0)
    assert hops.dead_lettered == speed.total("dead") >= len(letters)
