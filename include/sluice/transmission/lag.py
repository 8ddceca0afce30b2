"""How far consumers are behind the end of their topics: in records, and since when the oldest waits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import KafkaAdminClient, OffsetSpec, TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission.reading import reader
from sluice.transmission.topics import REQUEST_MS, Topics

#: The longest wait for Kafka, because a person waits for the answer; a little longer for each partition.
SECONDS, SECONDS_EACH = 3.0, 0.01
POLL_MS = 200
#: A batch that is larger is still fetched, one at a time.
FETCH_BYTES = 64 << 10


@dataclass(frozen=True)
class Lag:
    """A group's committed offset and the bounds of the log, in one partition.

    `committed` is None if the group never committed; the lag then counts from the log's start.
    """

    committed: int | None
    start: int
    end: int

    @property
    def records(self) -> int:
        """Offsets between the group and the end: as many as records, unless some were compacted.

        A record has one line or more, so this is no number of lines.
        """
        return max(0, self.end - max(self.start, self.committed or 0))


def archive_group(topic: str) -> str:
    return f"sluice-archive-{topic}"


def speed_group(topic: str) -> str:
    return f"sluice-speed-{topic}"


def group_lag(settings: Settings, group: str, topic: str) -> dict[int, Lag]:
    """The group's lag on each partition of the topic.

    The committed offsets are only for lag tools: both layers keep their true position with their data. Raises
    TopicMissing, or KafkaError if no broker answers.
    """
    with Topics(settings) as topics:
        partitions = [TopicPartition(topic, number) for number in topics.describe(topic).partitions]
    admin = KafkaAdminClient(
        **clients.options(settings.kafka),
        client_id="sluice-lag",
        request_timeout_ms=REQUEST_MS,
        bootstrap_timeout_ms=REQUEST_MS,
    )
    try:
        committed = admin.list_group_offsets({group: partitions})[group]
        starts = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST))
        ends = admin.list_partition_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    finally:
        admin.close()
    lags = {}
    for at in partitions:
        offset = committed[at].offset if at in committed else -1
        lags[at.partition] = Lag(offset if offset >= 0 else None, starts[at].offset, ends[at].offset)
    return lags


def waiting_since(settings: Settings, positions: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
    """When the record at each position came, or the one after it if Kafka skips some (ms since the epoch).

    positions: by topic and partition; there must be a record at or after each. What cannot be read within
    SECONDS, and SECONDS_EACH for each position, is left out. Reads without a group, so no consumer's position
    moves. Raises KafkaError.
    """
    if not positions:
        return {}
    consumer = reader(
        settings.kafka,
        client_id="sluice-waiting",
        auto_offset_reset="earliest",
        request_timeout_ms=REQUEST_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    found: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + SECONDS + SECONDS_EACH * len(positions)
    try:
        left = {TopicPartition(*at) for at in positions}
        consumer.assign(sorted(left))
        for at in left:
            consumer.seek(at, positions[at.topic, at.partition])
        while left and time.monotonic() < deadline:
            for at, messages in consumer.poll(timeout_ms=POLL_MS, max_records=1).items():
                found[at.topic, at.partition] = int(messages[0].timestamp)
                left.discard(at)
                consumer.pause(at)
    finally:
        consumer.close()
    return found
