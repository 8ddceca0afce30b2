"""A topic's offsets: its bounds in Kafka, and where the speed layer starts and stands.

The commit book has the true position. The offsets committed to the Kafka group ``sluice-speed-<topic>`` are
for lag tools only.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from sluice.runtime.settings import Settings
from sluice.transmission.lag import speed_group
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

REQUEST_MS = 10_000
# Showing the offsets must not hold up the counting.
SHOW_MS = 2_000
NO_EPOCH = -1
# How soon a partition that was added is counted, and a topic that was made again is noticed.
LOOK_SECONDS = 10.0


class TopicReplaced(RuntimeError):
    """The topic was deleted and made again, so its offsets are not those that were committed."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(
            f"topic {topic!r} is not the one that was counted so far ({detail}): it was deleted and made "
            "again. Let the collection write to a topic of a new name, and give its tasks that name"
        )


@dataclass(frozen=True)
class Lost:
    """Offsets that Kafka dropped before they were counted: [first, next)."""

    partition: int
    first: int
    next: int

    def __str__(self) -> str:
        return (
            f"partition {self.partition}: offsets {self.first} to {self.next - 1} left Kafka before they "
            "were counted; `sluice audit` shows the missing lines, and the archive may have them"
        )


@dataclass(frozen=True)
class OffsetBounds:
    """The first offset that each partition still has, and the one after its last."""

    topic_id: str
    first: dict[int, int]
    next: dict[int, int]


def starting_offsets(
    topic: str, committed: Mapping[str, int], bounds: OffsetBounds
) -> tuple[dict[str, int], list[Lost]]:
    """The offsets to continue from, and the offsets that this skips.

    Counting continues at the committed offsets, or where Kafka's log starts if that is later. Raises
    TopicReplaced.
    """
    start: dict[str, int] = {}
    lost: list[Lost] = []
    for partition, first in sorted(bounds.first.items()):
        at = committed.get(str(partition), first if not committed else 0)
        if at > bounds.next[partition]:
            ends = f"partition {partition} ends at {bounds.next[partition]}, counted up to {at}"
            raise TopicReplaced(topic, ends)
        if at < first:
            lost.append(Lost(partition, at, first))
        start[str(partition)] = max(at, first)
    return start, lost


class TopicOffsets:
    """One topic's offsets over one connection; used by one thread at a time."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self.topic = topic
        self._settings = settings
        self._consumer = reader(
            settings.kafka,
            client_id="sluice-speed",
            group_id=speed_group(topic),
            enable_auto_commit=False,
            request_timeout_ms=REQUEST_MS,
        )
        self._topics = Topics(settings)
        self._topic_id = ""
        self._partitions: list[TopicPartition] = []
        self._look = 0.0

    def bounds(self) -> OffsetBounds:
        """The topic's id and its first and next offsets. Raises TopicMissing."""
        topic_id = self._describe()
        first = self._consumer.beginning_offsets(self._partitions)
        return OffsetBounds(topic_id, {at.partition: offset for at, offset in first.items()}, self.ends())

    def now(self) -> dict[int, int]:
        """The offset after each partition's last record. Raises TopicReplaced, TopicMissing."""
        before = self._topic_id
        if time.monotonic() >= self._look and self._describe() != before:
            raise TopicReplaced(self.topic, f"its id is {self._topic_id}, not {before}")
        return self.ends()

    def ends(self) -> dict[int, int]:
        ends = self._consumer.end_offsets(self._partitions, timeout_ms=SHOW_MS)
        return {at.partition: offset for at, offset in ends.items()}

    def _describe(self) -> str:
        """Look at the topic's id, which is returned, and at its partitions."""
        topic = self._topics.describe(self.topic)
        self._topic_id = topic.id
        self._partitions = [TopicPartition(self.topic, number) for number in topic.partitions]
        self._look = time.monotonic() + LOOK_SECONDS
        return topic.id

    def commit(self, end: Mapping[str, int]) -> None:
        """Commit these offsets to the Kafka group."""
        self._consumer.commit(
            {
                TopicPartition(self.topic, int(partition)): OffsetAndMetadata(offset, "", NO_EPOCH)
                for partition, offset in end.items()
            },
            timeout_ms=SHOW_MS,
        )

    def close(self) -> None:
        self._topics.close()
        self._consumer.close()
