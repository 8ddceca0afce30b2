"""A topic's bounds in Kafka, and where the speed layer starts and stands.

The commit book has the true positions (`runtime.positions`). The offsets committed to the Kafka group
``sluice-speed-<topic>`` are for lag tools only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.errors import LeaderNotAvailableError
from kafka.structs import OffsetAndMetadata
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sluice.runtime.positions import PartitionLog, offset_of
from sluice.runtime.settings import Settings
from sluice.storage.tables.eras import LogMoved
from sluice.tasks.topic_log import TRIES, TopicLog
from sluice.transmission.lag import speed_group
from sluice.transmission.log_ends import LogEnd, log_ends
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)

REQUEST_MS = 10_000
# Showing the offsets must not hold up the counting.
SHOW_MS = 2_000
NO_EPOCH = -1
# How soon a partition that was added is counted, and a topic that was made again is noticed.
LOOK_SECONDS = 10.0

#: A position by partition.
Positions = Mapping[str, int]


@dataclass(frozen=True)
class Lost:
    """Offsets [first, next) of a partition that Kafka does not have; counted: whether they were counted."""

    partition: int
    first: int
    next: int
    counted: bool = False

    def __str__(self) -> str:
        offsets = f"partition {self.partition}: offsets {self.first} to {self.next - 1}"
        if self.counted:
            return (
                f"{offsets} were counted, and Kafka lost them since: its log was cut off (a power cut, an "
                "older volume), or the topic was made again. They stay counted, and what comes to these "
                "offsets now is counted, too; the archive may lack them"
            )
        return (
            f"{offsets} left Kafka before they were counted; `sluice audit` shows the missing lines, and the "
            "archive may have them"
        )


@dataclass(frozen=True)
class OffsetBounds:
    """Each partition's log, the first offset that it still has, and the one after its last."""

    topic_id: str
    logs: Mapping[int, PartitionLog]
    first: Mapping[int, int]
    next: Mapping[int, int]


def starting_positions(committed: Positions, bounds: OffsetBounds) -> tuple[dict[str, int], list[Lost]]:
    """The positions to go on from, and the offsets that are gone.

    Counting goes on at the committed positions, or where Kafka's log starts if that is later. A partition
    that Kafka does not have any more, because the topic was made again with fewer, keeps its position: its
    lines stay counted, and whoever takes a cut from a commit must not leave them out.
    """
    start = dict(committed)
    lost: list[Lost] = []
    for partition, first in sorted(bounds.first.items()):
        own = bounds.logs[partition]
        begin, end = own.position(first), own.position(bounds.next[partition])
        at = committed.get(str(partition), begin if not committed else 0)
        if gone := own.read_and_gone(at):
            lost.append(Lost(partition, *gone, counted=True))
        holes = own.holes(at, max(at, end))
        lost += [
            Lost(partition, offset_of(each.first), offset_of(each.first) + each.lost)
            for each in holes
            if each.lost
        ]
        lost += [Lost(partition, piece.start, piece.end) for piece in own.pieces(at, begin)]
        start[str(partition)] = max(at, begin)
    return start, lost


class TopicOffsets:
    """One topic's offsets over one connection; used by one thread at a time."""

    def __init__(self, settings: Settings, database: Engine, topic: str) -> None:
        self.topic = topic
        self._consumer = reader(
            settings.kafka,
            client_id="sluice-speed",
            group_id=speed_group(topic),
            request_timeout_ms=REQUEST_MS,
        )
        self._topics = Topics(settings)
        self._log = TopicLog(database, self._topics, topic)
        self._look = 0.0

    @property
    def logs(self) -> Mapping[int, PartitionLog]:
        """Each partition's log as it was looked at last."""
        return self._log.logs

    @property
    def read_at(self) -> dict[int, tuple[int, int]]:
        """The era and epoch at which each partition was looked at last."""
        return {number: (log.newest.era, log.newest.epoch) for number, log in self.logs.items()}

    def bounds(self) -> OffsetBounds:
        """Look at the topic. Raises TopicMissing, KafkaError, DBAPIError."""
        self._looked()
        partitions = [TopicPartition(self.topic, number) for number in self.logs]
        first = {at.partition: offset for at, offset in self._consumer.beginning_offsets(partitions).items()}
        ends = {number: end.offset for number, end in self._ends().items()}
        return OffsetBounds(self._log.topic_id, self.logs, first, ends)

    def now(self) -> dict[str, int]:
        """The position after each partition's last record.

        Looks at the topic again now and then, and when a leader changed. Raises TopicMissing, KafkaError,
        DBAPIError.
        """
        if time.monotonic() >= self._look:
            try:
                self._looked()
            except DBAPIError as error:  # a commit will notice what this did not
                log.warning("topic %s: cannot look at its log: %s", self.topic, error)
        ends = self._ends()
        for _ in range(TRIES):
            if not (moved := self._log.moved(ends)):
                return {str(number): self.logs[number].position(end.offset) for number, end in ends.items()}
            self._log.look(moved)
            ends = self._ends()
        raise LeaderNotAvailableError(f"{self.topic}: the leaders of its partitions change all the time")

    def check_topic(self) -> None:
        """Raise LogMoved if the topic was made again since it was looked at, TopicMissing, KafkaError."""
        if self._topics.describe(self.topic).id != self._log.topic_id:
            raise LogMoved(self.topic, self.logs)

    @property
    def topic_id(self) -> str:
        return self._log.topic_id

    def show(self, positions: Positions) -> int:
        """Commit the positions to the Kafka group; returns how many records are still to come."""
        ends = self._ends()
        at = {
            number: (self.logs[number], positions.get(str(number), 0), end.offset)
            for number, end in ends.items()
        }
        self._consumer.commit(
            {
                TopicPartition(self.topic, number): OffsetAndMetadata(log.offset(position, end), "", NO_EPOCH)
                for number, (log, position, end) in at.items()
            },
            timeout_ms=SHOW_MS,
        )
        return sum(log.records(position, log.position(end)) for log, position, end in at.values())

    def _ends(self) -> dict[int, LogEnd]:
        return log_ends(self._consumer, self.topic, self.logs, SHOW_MS)

    def close(self) -> None:
        self._topics.close()
        self._consumer.close()

    def _looked(self) -> None:
        self._log.look()
        self._look = time.monotonic() + LOOK_SECONDS
