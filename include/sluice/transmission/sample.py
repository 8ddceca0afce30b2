"""The newest lines of a topic, for people who write a task and want to try it on them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from kafka import KafkaConsumer, TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission.identity import Message, held, records
from sluice.transmission.line_schema import UNREADABLE
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import REQUEST_MS, Topics

#: Even if Kafka is busy, a person waits for the answer.
SECONDS = 5.0
#: A line may have 16 MiB; a sample with many such lines is cut short.
MAX_BYTES = 64 << 20
POLL_MS = 500
#: Records of the first read, a partition's newest ones. Nobody knows how many lines they have.
FIRST_RECORDS = 16
#: Growth factor of the next, earlier read, which follows if the lines are too few.
MORE = 8

#: What orders the lines of a topic: arrival, partition, offset and line in the record; then the line.
_Found = tuple[int, int, int, int, bytes]


def sample(settings: Settings, topic: str, count: int, seconds: float = SECONDS) -> list[bytes]:
    """The newest `count` lines of the topic, or all if there are fewer, the oldest first.

    Reads without a group, so no consumer's position moves. Stops after `seconds` or `MAX_BYTES`. Raises
    TopicMissing, KeyMissing, or KafkaError if no broker answers.
    """
    key = identity_key(settings)
    with Topics(settings) as topics:
        partitions = [TopicPartition(topic, number) for number in topics.describe(topic).partitions]
    consumer = reader(
        settings.kafka,
        client_id="sluice-sample",
        request_timeout_ms=REQUEST_MS,
    )
    try:
        ranges = _Reader(consumer, key, time.monotonic() + seconds)
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        found: dict[TopicPartition, list[_Found]] = {at: [] for at in partitions}
        step = FIRST_RECORDS
        # Read backwards until each partition alone could give all lines.
        while wanted := [at for at in partitions if len(found[at]) < count and end[at] > first[at]]:
            begin = {at: max(first[at], end[at] - step) for at in wanted}
            for at, lines in ranges.between(begin, end).items():
                found[at] += lines
            if ranges.spent:
                break
            end |= begin
            step *= MORE
    finally:
        consumer.close()
    newest = sorted(line for lines in found.values() for line in lines)[-count:]
    return [line for *_, line in newest]


class _Reader:
    """Reads ranges of offsets, until its time or MAX_BYTES are spent."""

    def __init__(self, consumer: KafkaConsumer, key: bytes, deadline: float) -> None:
        self._consumer, self._key, self._deadline = consumer, key, deadline
        self._bytes = 0

    @property
    def spent(self) -> bool:
        return self._bytes >= MAX_BYTES or time.monotonic() >= self._deadline

    def between(
        self, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[_Found]]:
        """The lines of these partitions' records in [begin, end)."""
        self._consumer.assign(list(begin))
        for at, offset in begin.items():
            self._consumer.seek(at, offset)
        found: defaultdict[TopicPartition, list[_Found]] = defaultdict(list)
        waiting = set(begin)
        while waiting and not self.spent:
            for at, messages in self._consumer.poll(timeout_ms=POLL_MS).items():
                own = [message for message in messages if message.offset < end[at]]
                found[at] += self._lines(at.partition, own)
            waiting = {at for at in waiting if self._consumer.position(at) < end[at]}
        return found

    def _lines(self, partition: int, messages: Sequence[Message]) -> list[_Found]:
        self._bytes += sum(map(held, messages))
        return [
            (row["arrival"], partition, row["offset"], row["line_in_record"], row["line"])
            for batch in records(partition, messages, self._key)
            for row in batch.select(["arrival", "offset", "line_in_record", "line", UNREADABLE]).to_pylist()
            if row[UNREADABLE] is None
        ]
