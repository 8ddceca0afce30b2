"""The newest lines of a topic, for people who write a task and want to try it on them."""

from __future__ import annotations

import time

from kafka import KafkaConsumer, TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission.topics import REQUEST_MS, Topics

#: Even if Kafka is busy, a person waits for the answer.
SECONDS = 5.0
#: A line may have 16 MiB; a sample with many such lines is cut short.
MAX_BYTES = 64 << 20
POLL_MS = 500


def sample(settings: Settings, topic: str, count: int, seconds: float = SECONDS) -> list[bytes]:
    """The newest `count` lines of the topic, or all if there are fewer, the oldest first.

    Reads without a group, so no consumer's position moves. Stops after `seconds` or `MAX_BYTES`. Raises
    TopicMissing, or KafkaError if no broker answers.
    """
    with Topics(settings) as topics:
        partitions = [TopicPartition(topic, number) for number in topics.describe(topic).partitions]
    consumer = KafkaConsumer(
        bootstrap_servers=settings.kafka.bootstrap,
        client_id="sluice-sample",
        group_id=None,
        enable_auto_commit=False,
        request_timeout_ms=REQUEST_MS,
    )
    try:
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        consumer.assign(partitions)
        for at in partitions:
            consumer.seek(at, max(first[at], end[at] - count))
        waiting = {at for at in partitions if end[at] > first[at]}
        found: list[tuple[int, int, int, bytes]] = []
        deadline = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline and sum(len(line) for *_, line in found) < MAX_BYTES:
            for at, records in consumer.poll(timeout_ms=POLL_MS).items():
                found += [
                    (record.timestamp, at.partition, record.offset, record.value or b"")
                    for record in records
                    if record.offset < end[at]
                ]
            waiting = {at for at in waiting if consumer.position(at) < end[at]}
    finally:
        consumer.close()
    return [line for *_, line in sorted(found)[-count:]]
