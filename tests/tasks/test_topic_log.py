"""Two layers read a log whose end is lost, and whose volume is replaced by older and newer copies."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.positions import UNREAD, offset_of, position_at
from sluice.stack.daemons.kafka_volume import KafkaStart, shared_epochs
from sluice.storage.tables import alerts, eras, schema
from sluice.storage.tables.eras import LogMoved
from sluice.tasks.topic_log import TopicLog
from sluice.transmission.log_ends import LogEnd
from sluice.transmission.topics import KafkaTopic
from tests.examples import examples
from tests.tasks.database import sqlite

TOPIC = "logs"
LIMITS = examples(40)


@dataclass
class KafkaVolume:
    """One partition. records: numbers, none given twice. epochs: each with the offset where it began.

    led: the newest epoch, as the volume's metadata have it.
    """

    led: int = -2
    records: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    starts: list[KafkaStart] = field(default_factory=list)


class CopiedKafka:
    """A broker that answers as Kafka does, and whose volume is copied, cut off and put back."""

    def __init__(self, database: sa.Engine) -> None:
        self.database, self.volume, self.given = database, KafkaVolume(), 0
        self.ran_last: list[KafkaStart] = []
        self.start()

    @property
    def epoch(self) -> int:
        return self.volume.led

    def start(self) -> None:
        """As `mark_volume` and Kafka do."""
        volume = self.volume
        epochs = {f"{TOPIC}-0": volume.epochs[-1][0]} if volume.epochs else {}
        if (common := shared_epochs(volume.starts, self.ran_last, epochs)) is not None:
            eras.volume_changed(self.database, common)
        volume.starts.append(KafkaStart(epochs=epochs))
        self.ran_last = list(volume.starts)
        volume.led += 2
        end = len(volume.records)
        volume.epochs = [each for each in volume.epochs if each[1] < end] + [(volume.led, end)]

    def append(self, number: int) -> None:
        self.volume.records += range(self.given, self.given + number)
        self.given += number

    def lose(self, kept: int) -> None:
        """The log's end goes, as in a power cut."""
        del self.volume.records[kept:]

    def describe(self, name: str) -> KafkaTopic:
        return KafkaTopic(name, "id", (0,))

    def log_ends(self, _: str, partitions: object) -> dict[int, LogEnd]:
        return {0: LogEnd(len(self.volume.records), self.epoch)}

    def ends_of_epochs(self, _: str, epochs: Mapping[int, int]) -> dict[int, int]:
        later = [at for epoch, at in self.volume.epochs if epoch > epochs[0]] if epochs else []
        return {0: later[0] if later else len(self.volume.records)} if epochs else {}


class ReadingLayer:
    """A layer that reads ahead, and books what it read only if the log did not move."""

    def __init__(self, kafka: CopiedKafka, *, counts: bool) -> None:
        self.kafka, self.counts = kafka, counts
        self.log = TopicLog(kafka.database, kafka, TOPIC)  # type: ignore[arg-type]
        self.at, self.read, self.places = 0, list[int](), dict[int, int]()
        self.ahead: tuple[int, dict[int, int], tuple[int, int]] | None = None

    def look(self) -> None:
        self.ahead = None
        self.log.look()

    def fetch(self, number: int) -> None:
        if self.log.moved(self.kafka.log_ends(TOPIC, [0])):
            self.look()
        log, there = self.log.logs[0], self.kafka.volume.records
        end = log.position(len(there))
        to = log.after(self.at, number, end)
        found = {
            offset + piece.shift: there[offset]
            for piece in log.pieces(self.at, to)
            for offset in range(piece.start, piece.end)
        }
        self.ahead = max(self.at, to), found, (log.newest.era, log.newest.epoch)

    def book(self) -> None:
        if self.ahead is None:
            return
        to, found, read_at = self.ahead
        self.ahead = None
        try:
            if not self.counts and self.kafka.epoch != read_at[1]:
                raise LogMoved(TOPIC, [0])
            with self.kafka.database.begin() as connection:
                eras.hold(connection, TOPIC, {0: read_at})
                if to > self.at:
                    connection.execute(self._row(to))
        except LogMoved:
            self.look()
        else:
            self.at, self.places = to, self.places | found
            self.read += found.values()

    def _row(self, to: int) -> sa.Insert:
        if self.counts:
            row = {"topic": TOPIC, "seq": len(self.read) + to, "token": "t", "topic_id": "id", "start": {}}
            return sa.insert(schema.commits).values(**row, tasks=[], counts={}, end={"0": to})
        row = {"topic": TOPIC, "topic_id": "id", "partition": 0, "first": self.at, "next": to, "records": 1}
        row |= {"lines": 1, "bytes": 1, "arrival_min": 1, "arrival_max": 1, "days": {}, "unparsed": 0}
        return sa.insert(schema.archive_files).values(**row, generation=1, path="p")


class Replacements:
    """Copies of a volume, and what is put in place of it. newer: one that was replaced may come back."""

    def __init__(self, kafka: CopiedKafka, drawn: random.Random, *, newer: bool) -> None:
        self.kafka, self.drawn, self.newer = kafka, drawn, newer
        self.copies: list[KafkaVolume] = []

    def restart(self) -> None:
        if not self.newer:
            self.kafka.lose(self.drawn.randint(0, len(self.kafka.volume.records)))
            self.copies.clear()  # what was lost does not come back
        self.kafka.start()

    def copy(self) -> None:
        self.copies.append(copy.deepcopy(self.kafka.volume))
        if self.newer:  # it was stopped for the copy
            self.kafka.start()

    def put_back(self) -> None:
        if not self.copies:
            return self.copy()
        at = self.drawn.randrange(len(self.copies))
        if self.newer:
            self.copies.append(self.kafka.volume)
        else:
            del self.copies[at + 1 :]
        self.kafka.volume = copy.deepcopy(self.copies[at])
        return self.kafka.start()


def played(drawn: random.Random, *, newer: bool) -> tuple[CopiedKafka, list[ReadingLayer]]:
    """40 steps by chance, until both layers have all."""
    kafka = CopiedKafka(sqlite())
    volumes = Replacements(kafka, drawn, newer=newer)
    layers = [ReadingLayer(kafka, counts=True), ReadingLayer(kafka, counts=False)]
    for each in layers:
        each.look()
    for _ in range(40):
        layer = layers[drawn.randint(0, 1)]
        steps: dict[Callable[[], None], int] = {
            partial(kafka.append, drawn.randint(1, 6)): 35,
            partial(layer.fetch, drawn.randint(1, 9)): 20,
            layer.book: 20,
            layer.look: 5,
            volumes.restart: 5,
            volumes.copy: 7,
            volumes.put_back: 8,
        }
        drawn.choices(list(steps), list(steps.values()))[0]()
    for each in layers:
        each.look()
        each.fetch(10_000)
        each.book()
    return kafka, layers


@pytest.mark.slow
@LIMITS
@given(st.randoms(use_true_random=False))
def test_what_an_older_volume_has_is_read_once_by_each_layer(drawn: random.Random) -> None:
    kafka, layers = played(drawn, newer=False)
    for layer in layers:
        assert set(kafka.volume.records) <= set(layer.read)
        assert max(Counter(layer.read).values(), default=0) <= 1
    assert_places_agree(layers)


@pytest.mark.slow
@LIMITS
@given(st.randoms(use_true_random=False))
def test_what_a_newer_volume_has_that_is_put_back_is_read_by_both_layers(drawn: random.Random) -> None:
    kafka, layers = played(drawn, newer=True)
    for layer in layers:
        assert set(kafka.volume.records) <= set(layer.read)
    assert_places_agree(layers)


def assert_places_agree(layers: list[ReadingLayer]) -> None:
    """No position has two records."""
    one, other = (layer.places for layer in layers)
    assert {at: one[at] for at in one.keys() & other.keys()} == {
        at: other[at] for at in one.keys() & other.keys()
    }


def test_an_older_volume_that_grew_beyond_what_was_read_is_noticed_and_named() -> None:
    kafka = CopiedKafka(sqlite())
    layer = ReadingLayer(kafka, counts=True)
    kafka.append(100)
    old = copy.deepcopy(kafka.volume)
    kafka.start()
    kafka.append(50)
    layer.look()
    layer.fetch(1000)
    layer.book()
    kafka.volume = old
    kafka.start()
    kafka.append(80)
    assert kafka.epoch == layer.log.logs[0].newest.epoch  # nothing else tells
    layer.look()
    newest = layer.log.logs[0].newest
    assert (newest.era, newest.begins, newest.reached) == (1, 100, 150)
    (alert,) = alerts.open_alerts(kafka.database)
    assert alert.name == "lost logs/0: offset 100, era 1"
    assert "from offset 100 on, of which 50 had been read" in alert.message
    layer.fetch(1000)
    layer.book()
    assert layer.read == list(range(230))
    assert (offset_of(layer.at), layer.at) == (180, position_at(1, 180))


def test_an_older_volume_with_all_that_was_read_loses_nothing() -> None:
    kafka = CopiedKafka(sqlite())
    layer = ReadingLayer(kafka, counts=True)
    kafka.append(100)
    old = copy.deepcopy(kafka.volume)
    kafka.start()
    layer.look()
    layer.fetch(90)
    layer.book()
    layer.fetch(5)  # it has read ahead when the volume is replaced
    kafka.volume = old
    kafka.start()
    layer.book()
    assert layer.at == 90
    assert alerts.open_alerts(kafka.database) == []
    layer.fetch(1000)
    layer.book()
    assert layer.read == list(range(100))


def test_a_partition_that_another_volume_lacks_begins_anew() -> None:
    kafka = CopiedKafka(sqlite())
    layer = ReadingLayer(kafka, counts=True)
    kafka.append(10)
    layer.look()
    layer.fetch(10)
    layer.book()
    kafka.volume = KafkaVolume()
    eras.volume_changed(kafka.database, {})
    kafka.ran_last = []
    kafka.start()
    kafka.append(20)
    layer.look()
    layer.fetch(100)
    layer.book()
    assert layer.read == list(range(30))
    assert [each.name for each in alerts.open_alerts(kafka.database)] == ["lost logs/0: offset 0, era 1"]
    assert eras.logs(kafka.database, TOPIC)[0] != UNREAD
