from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission.lag import Lag, group_lag, waiting_since
from sluice.transmission.topics import Span, TopicMissing, Topics
from sluice_lab.waiting import until

pytestmark = pytest.mark.stack


@pytest.fixture
def name(stack: Settings) -> Iterator[str]:
    name = f"h4_{secrets.token_hex(5)}"
    yield name
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)
    if name in admin.list_topics():
        admin.delete_topics([name])
    admin.close()


def test_a_topic_is_made_once_and_keeps_its_id(stack: Settings, name: str) -> None:
    with Topics(stack) as topics:
        made = topics.create(name, partitions=3)
        assert made.partitions == (0, 1, 2)
        assert topics.create(name, partitions=3) == made == topics.describe(name)
        assert topics.bounds(name, 2) == (0, 0)


def test_a_missing_topic_is_named(stack: Settings) -> None:
    with Topics(stack) as topics, pytest.raises(TopicMissing, match="topic 'h4_none' does not exist"):
        topics.ends("h4_none")


def test_arrival_is_the_brokers_clock_and_long_lines_pass(stack: Settings, name: str) -> None:
    with Topics(stack) as topics:
        topics.create(name, partitions=1)
        long = b"x" * (15 << 20)
        producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap, max_request_size=17 << 20)
        producer.send(name, long, timestamp_ms=1).get(30)
        producer.close()
        assert topics.bounds(name, 0) == (0, 1)
    consumer = KafkaConsumer(name, bootstrap_servers=stack.kafka.bootstrap, auto_offset_reset="earliest")
    found = until(lambda: consumer.poll(timeout_ms=1_000))  # a poll may end early with nothing
    (message,) = found[TopicPartition(name, 0)]
    consumer.close()
    assert message.value == long
    assert message.timestamp_type == 1
    assert message.timestamp > 1


def test_a_topic_says_where_it_ends_and_since_when_a_record_waits(stack: Settings, name: str) -> None:
    before = time.time()
    with Topics(stack) as topics:
        topics.create(name, partitions=2)
        assert topics.spans(name, 0) == {0: Span(0, 0, 0), 1: Span(0, 0, 0)}
        producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)
        sent = [producer.send(name, b"line", partition=at).get(30) for at in (0, 1, 1)]
        producer.close()
        assert topics.spans(name, 0) == {0: Span(0, 0, 1), 1: Span(0, 0, 2)}
        assert topics.ends(name) == {0: 1, 1: 2}
    assert waiting_since(stack, {}) == {}
    came = waiting_since(stack, {(name, 0): 0, (name, 1): 1})
    assert came == {(name, 0): sent[0].timestamp, (name, 1): sent[2].timestamp}
    assert before - 5 <= came[name, 0] / 1000 <= time.time() + 5


def test_a_group_that_never_committed_is_behind_by_all_of_it(stack: Settings, name: str) -> None:
    with Topics(stack) as topics:
        topics.create(name, partitions=1)
    producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)
    for _ in range(5):
        producer.send(name, b"line")
    producer.close()
    (lag,) = group_lag(stack, f"group-{name}", name).values()
    assert lag == Lag(committed=None, start=0, end=5)
    assert lag.records == 5


def test_lag_counts_from_what_the_log_still_has() -> None:
    assert Lag(committed=3, start=10, end=15).records == 5
    assert Lag(committed=12, start=10, end=15).records == 3
    assert Lag(committed=20, start=10, end=15).records == 0
