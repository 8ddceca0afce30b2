"""How far a consumer group is behind the end of its topic."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import KafkaAdminClient, OffsetSpec, TopicPartition

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission.topics import REQUEST_MS, Topics


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
