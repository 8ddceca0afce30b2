"""Since when a consumer's oldest record waits."""

from __future__ import annotations

import time
from collections.abc import Mapping

from kafka import TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission.reading import reader
from sluice.transmission.topics import REQUEST_MS

#: Even if Kafka is busy, a person waits for the answer; for that of many partitions a little longer.
SECONDS, SECONDS_EACH = 3.0, 0.01
POLL_MS = 200
#: A batch that is larger is still fetched, one at a time.
FETCH_BYTES = 64 << 10


def since(settings: Settings, positions: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
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
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        request_timeout_ms=REQUEST_MS,
        max_partition_fetch_bytes=FETCH_BYTES,
        enable_incremental_fetch_sessions=False,
        metrics_enabled=False,
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
