"""What each store is given before a power cut, what it answered, and what it must have afterwards.

A store is given numbered things one after the other, and each answer is noted with the length that the
store's file had then. What was answered when the file was no longer than it is after the cut must be there;
and what is there must be a beginning of what was given.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Protocol

import psycopg2
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sluice.stack import databases
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase
from sluice.storage.hdfs import HdfsStore
from sluice.transmission.topics import Topics
from tests.cuts.damage import Damage, damage
from tests.cuts.stores import OwnDaemons

TOPIC, BATCHES, LINES = "logs", 60, 20
PUTS, ROWS = 40, 10
VALUE = b"a value that is nowhere else" * 20
FILES, COPIES = 30, 2000
COMMITS, PAGE = 300, 8192
#: A namenode fills its journal up with these bytes.
FILL = b"\xff"
#: How much of the journal is lost at most: the transactions that a finished piece has are on the disk.
JOURNAL_BYTES = 4000


class StoreContent(Protocol):
    """What a store was given, round after round."""

    def give(self) -> None:
        """Give it more, and note what it answers."""

    def cut(self, drawn: random.Random, *, zeros: bool) -> None:
        """Its file loses its end. The store does not run."""

    def check(self) -> None:
        """It has what it answered, and nothing else. It runs again."""


def lose_power(own: OwnDaemons, drawn: random.Random, *contents: StoreContent, zeros: bool) -> None:
    """Give each store more, kill all at once, cut their files' ends, start, and check what is there."""
    for each in contents:
        each.give()
    own.kill()
    for each in contents:
        each.cut(drawn, zeros=zeros)
    own.start()
    for each in contents:
        each.check()


class KafkaContent:
    """Lines in each partition of a topic."""

    def __init__(self, own: OwnDaemons, partitions: int = 1) -> None:
        with Topics(own.settings) as topics:
            topics.create(TOPIC, partitions=partitions)
        self._bootstrap = own.settings.kafka.bootstrap
        self.folders = [own.home / "data" / "kafka" / f"{TOPIC}-{number}" for number in range(partitions)]
        self._given = [0] * partitions
        self._answered: list[list[tuple[int, int]]] = [[] for _ in self.folders]
        self._kept: dict[int, Damage] = {}

    def segment(self, partition: int) -> Path:
        """The one that is being written."""
        return max(self.folders[partition].glob("*.log"))

    def give(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap, acks="all", linger_ms=50)
        for _ in range(BATCHES):
            sent = [
                producer.send(TOPIC, b"%07d" % (given + line) + bytes(90), partition=number)
                for number, given in enumerate(self._given)
                for line in range(LINES)
            ]
            producer.flush()
            for each in sent:
                each.get(60)
            for number in range(len(self.folders)):
                self._given[number] += LINES
                self._answered[number].append((self._given[number], self.segment(number).stat().st_size))
        producer.close()

    def cut(self, drawn: random.Random, *, zeros: bool) -> None:
        for number in range(len(self.folders)):
            self.cut_partition(number, drawn, zeros=zeros)

    def cut_partition(self, number: int, drawn: random.Random, *, zeros: bool) -> None:
        self._kept[number] = damage(self.segment(number), drawn, zeros=zeros)

    def check(self) -> None:
        for number, done in self._kept.items():
            found = self.lines(number)
            sure = max([count for count, size in self._answered[number] if size <= done.kept], default=0)
            assert found == list(range(len(found))), f"partition {number}"
            assert sure <= len(found) < self._given[number], f"partition {number}"
            self._given[number], self._answered[number] = len(found), []

    def lines(self, partition: int) -> list[int]:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap)
        at = TopicPartition(TOPIC, partition)
        consumer.assign([at])
        consumer.seek(at, 0)
        end, found = consumer.end_offsets([at])[at], []
        while consumer.position(at) < end:
            found += [int(record.value[:7]) for record in consumer.poll(500).get(at, [])]
        consumer.close()
        return found


class HBaseContent:
    """Rows of a table."""

    def __init__(self, own: OwnDaemons) -> None:
        self._own, self._there = own, 0
        self._answered: list[tuple[int, int]] = []
        with HBase.of(own.settings) as hbase:
            hbase.create_table(STATE, {STATE_FAMILY.decode(): {"max_versions": 1}})

    def log(self) -> Path:
        """The block of the write-ahead log that has the values."""
        blocks = self._own.home.glob("data/datanode/current/BP-*/current/rbw/blk_*")
        found = [each for each in blocks if each.suffix != ".meta" and VALUE in each.read_bytes()]
        return max(found, key=lambda each: each.stat().st_mtime)

    def give(self) -> None:
        self._answered = []
        with HBase.of(self._own.settings) as hbase:
            for number in range(PUTS):
                begin = self._there + number * ROWS
                hbase.put(STATE, [(b"%07d" % row, {b"s:1.a": VALUE}) for row in range(begin, begin + ROWS)])
                self._answered.append((begin + ROWS, self.log().stat().st_size))
        self._kept = self._answered[-1][1]

    def cut(self, drawn: random.Random, *, zeros: bool) -> None:
        # The log's entries end with text, so all zeros at its end are of the cut.
        self._kept = damage(self.log(), drawn, zeros=zeros).kept

    def check(self) -> None:
        with HBase.of(self._own.settings) as hbase:
            found = [int(row) for row, _ in hbase.scan(STATE)]
        assert found == list(range(len(found)))
        sure = max([count for count, length in self._answered if length <= self._kept], default=0)
        assert max(self._there, sure) <= len(found) <= self._answered[-1][0]
        self._there = len(found)


class HdfsContent:
    """Files, written as the archiver does. The end of the namenode's journal is what is lost."""

    def __init__(self, own: OwnDaemons) -> None:
        self._own, self._there = own, list[str]()
        self._written: list[tuple[str, int]] = []

    def journal(self) -> Path:
        """The piece that is being written."""
        return max((self._own.home / "data" / "namenode" / "current").glob("edits_inprogress_*"))

    def write(self, first: int) -> list[tuple[str, int]]:
        """Write files; returns each with the journal's length when it stood."""
        store, found = HdfsStore.of(self._own.settings), []
        for number in range(first, first + FILES):
            name = f"f{number:05}"
            store.write(f"/a/.tmp-{name}", text(name))
            store.rename(f"/a/.tmp-{name}", f"/a/{name}")
            found.append((name, len(self.journal().read_bytes().rstrip(FILL))))
        return found

    def names(self) -> list[str]:
        found = HdfsStore.of(self._own.settings).list("/a")
        return [each.name for each in found if not each.name.startswith(".")]

    def give(self) -> None:
        self._there = self.names()
        self._written = self.write(len(self._there))

    def cut(self, drawn: random.Random, *, zeros: bool) -> None:
        done = damage(self.journal(), drawn, zeros=zeros, padding=FILL, most=JOURNAL_BYTES)
        self._kept = done.kept

    def check(self) -> None:
        found, store = self.names(), HdfsStore.of(self._own.settings)
        assert found == [*self._there, *(name for name, _ in self._written)][: len(found)]
        assert {*self._there, *(name for name, length in self._written if length <= self._kept)} <= set(found)
        for name in found:
            assert store.read(f"/a/{name}") == text(name)


def text(name: str) -> bytes:
    """What a file of this name has."""
    return name.encode() * COPIES


class PostgresContent:
    """Rows that are committed one by one."""

    def __init__(self, own: OwnDaemons) -> None:
        databases.create(own.settings, own.settings.postgres)
        self._own, self._url = own, own.settings.postgres.url("postgresql")
        self._committed: list[tuple[int, str, int]] = []

    def give(self) -> None:
        """Notes each row with the segment of the log, and where it ended there."""
        self._committed = []
        with closing(psycopg2.connect(self._url)) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute("CREATE TABLE IF NOT EXISTS rows (n int PRIMARY KEY, text text)")
            cursor.execute("SELECT count(*) FROM rows")
            first = cursor.fetchone()[0]
            for number in range(first, first + COMMITS):
                cursor.execute("INSERT INTO rows VALUES (%s, %s)", (number, "x" * 200))
                cursor.execute("SELECT * FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())")
                self._committed.append((number, *cursor.fetchone()))

    def cut(self, drawn: random.Random, *, zeros: bool) -> None:
        _, self._segment, end = self._committed[-1]
        path = self._own.home / "data" / "postgres" / "pg_wal" / self._segment
        done = damage(path, drawn, zeros=zeros, end=end, most=min(end, 64 << 10) // 2)
        # A segment has its whole length from the start; of one that is shorter, half a page is not read.
        self._kept = done.kept if zeros else done.kept // PAGE * PAGE

    def check(self) -> None:
        with closing(psycopg2.connect(self._url)) as connection:
            cursor = connection.cursor()
            cursor.execute("SELECT n FROM rows ORDER BY n")
            found = [number for (number,) in cursor.fetchall()]
        assert found == list(range(len(found)))
        sure = {number for number, name, at in self._committed if name < self._segment or at <= self._kept}
        assert sure <= set(found)
