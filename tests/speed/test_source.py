"""A batch's records, read from Kafka by the tasks that count them."""

from __future__ import annotations

import pickle
import secrets

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from sluice.runtime.positions import Era, PartitionLog
from sluice.runtime.sections import Kafka
from sluice.runtime.settings import Settings
from sluice.speed import source
from sluice.speed.source import NoRecords, RecordsGone, Slice, SourcePart, TopicRange
from sluice.transmission.topics import Topics
from tests.identities import KEY


def of(**slices: tuple[int, int]) -> TopicRange:
    wanted = [Slice(int(n[1:]), *own) for n, own in slices.items()]
    return TopicRange(Kafka(bootstrap="127.0.0.1:1"), "logs", wanted, KEY)


def test_the_largest_slices_are_dealt_first_and_each_part_reads_in_the_order_of_partitions() -> None:
    parts = of(p0=(0, 5), p1=(7, 8), p2=(0, 3), p3=(2, 6)).parts(2)
    assert [part.slices for part in parts] == [
        [Slice(0, 0, 5), Slice(1, 7, 8)],
        [Slice(2, 0, 3), Slice(3, 2, 6)],
    ]


def test_there_are_no_empty_parts() -> None:
    assert [part.slices for part in of(p0=(0, 5), p9=(0, 1)).parts(8)] == [[Slice(0, 0, 5)], [Slice(9, 0, 1)]]
    assert [part.slices for part in of(p0=(0, 1), p9=(0, 5)).parts()] == [[Slice(9, 0, 5)], [Slice(0, 0, 1)]]
    assert of().parts(2) == []


class Topic:
    """A topic of two partitions in the running Kafka."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.name = f"source_{secrets.token_hex(4)}"
        with Topics(settings) as topics:
            topics.create(self.name, partitions=2)

    def send(self, partition: int, *lines: bytes) -> None:
        producer = KafkaProducer(bootstrap_servers=self.settings.kafka.bootstrap, acks="all")
        for line in lines:
            producer.send(self.name, line, partition=partition)
        producer.close()

    def read(self, **end: int) -> list[tuple[int, int, bytes]]:
        ends = {n[1:]: at for n, at in end.items()}
        logs = {int(number): PartitionLog((Era(0, "id", 0, 0),)) for number in ends}
        found = TopicRange.of(self.settings, self.name, {"0": 1}, ends, logs)
        (part,) = pickle.loads(pickle.dumps(found.parts(1)))  # noqa: S301 - as Spark does
        rows = (row for batch in part for row in batch.to_pylist())
        return [(row["partition"], row["offset"], row["line"]) for row in rows]


@pytest.fixture(scope="module")
def topic(stack: Settings) -> Topic:
    return Topic(stack)


@pytest.mark.stack
def test_exactly_the_range_is_read_and_a_consumer_is_used_again(topic: Topic) -> None:
    topic.send(0, *(b"a%d" % n for n in range(300)))
    topic.send(1, *(b"b%d" % n for n in range(300)))
    expected = [(0, n, b"a%d" % n) for n in range(1, 200)] + [(1, n, b"b%d" % n) for n in range(100)]
    assert topic.read(p0=200, p1=100) == expected
    before = dict(source._own.consumers)
    assert topic.read(p0=300) == [(0, n, b"a%d" % n) for n in range(1, 300)]
    assert source._own.consumers == before


@pytest.mark.stack
def test_records_that_left_kafka_are_an_error_and_are_not_skipped(topic: Topic) -> None:
    topic.send(0, b"one", b"two", b"three")
    admin = KafkaAdminClient(bootstrap_servers=topic.settings.kafka.bootstrap)
    admin.delete_records({TopicPartition(topic.name, 0): 2})
    with pytest.raises(RecordsGone, match="offset 1 is not in Kafka any more"):
        topic.read(p0=3)
    admin.close()
    assert source._own.consumers == {}


@pytest.mark.stack
def test_records_that_do_not_come_are_an_error(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "PATIENCE_SECONDS", 0.5)
    with pytest.raises(NoRecords, match="partition 1: Kafka sent nothing from offset"):
        list(SourcePart(topic.settings.kafka, topic.name, [Slice(1, 0, 1 << 40)], KEY))
