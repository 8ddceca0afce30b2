"""The newest lines of a topic."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaProducer

from sluice.runtime.settings import Settings
from sluice.transmission.mac import identity_key
from sluice.transmission.sample import sample
from sluice.transmission.topics import TopicMissing, Topics
from sluice_lab.bench.headers import to_headers
from sluice_lab.waiting import SECONDS

pytestmark = pytest.mark.stack


@pytest.fixture
def topic(stack: Settings) -> Iterator[str]:
    """A topic of three partitions with the lines 0 to 29 written in turn, ten in each."""
    name = f"sample_{secrets.token_hex(5)}"
    with Topics(stack) as topics:
        topics.create(name, partitions=3)
    producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)
    for number in range(30):
        producer.send(name, str(number).encode(), partition=number % 3).get(30)
        time.sleep(0.002)  # the broker's clock, in ms, orders lines of different partitions
    producer.close()
    yield name
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)
    admin.delete_topics([name])
    admin.close()


def test_the_newest_lines_of_all_partitions_come_oldest_first(stack: Settings, topic: str) -> None:
    assert sample(stack, topic, 5, SECONDS) == [b"25", b"26", b"27", b"28", b"29"]
    assert sample(stack, topic, 100, SECONDS) == [str(number).encode() for number in range(30)]


def test_blocks_give_their_newest_lines_and_not_whole_blocks(stack: Settings, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)
    key = identity_key(stack)
    for number in range(3):
        body = b"\n".join(b"%d.%d" % (number, line) for line in range(4))
        headers = to_headers("web1", "a.log", 0, body, key)
        producer.send(topic, body, headers=headers, partition=number).get(30)
        time.sleep(0.002)
    producer.close()
    assert sample(stack, topic, 5, SECONDS) == [b"1.3", b"2.0", b"2.1", b"2.2", b"2.3"]
    assert sample(stack, topic, 100, SECONDS)[:30] == [str(number).encode() for number in range(30)]
    assert len(sample(stack, topic, 100, SECONDS)) == 42


def test_an_empty_topic_answers_at_once(stack: Settings) -> None:
    name = f"sample_{secrets.token_hex(5)}"
    with Topics(stack) as topics:
        topics.create(name, partitions=2)
    begin = time.monotonic()
    assert sample(stack, name, 5, SECONDS) == []
    assert time.monotonic() - begin < SECONDS


def test_a_missing_topic(stack: Settings) -> None:
    with pytest.raises(TopicMissing):
        sample(stack, "sample_none", 5)
