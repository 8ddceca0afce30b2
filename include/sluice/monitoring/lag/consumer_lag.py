"""What is shown of a consumer's lag: by partition, and in sums by member and topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class ConsumingJob(StrEnum):
    """A job that reads the topics."""

    ARCHIVER = "archiver"
    SPEED_LAYER = "speed_layer"


@dataclass(frozen=True)
class Behind:
    """How far a consumer is behind.

    records: that wait. seconds: how long the oldest of them has waited; None if it could not be read.
    arriving, processed: records a second, over the last minute; None if unknown. catch_up: seconds until
    nothing waits, at these rates; None if it never will.
    """

    records: int
    seconds: float | None
    arriving: float
    processed: float | None

    @property
    def catch_up(self) -> float | None:
        if not self.records:
            return 0.0
        gains = (self.processed or 0.0) - self.arriving
        return self.records / gains if gains > 0 else None

    @classmethod
    def of(cls, parts: Sequence[Behind]) -> Behind:
        """The sum of partitions; the oldest record is that of all whose age could be read.

        What they process is known only if it is known of each, because it is compared with what comes to all.
        """
        behind = [part for part in parts if part.records] or parts
        waited = [part.seconds for part in behind if part.seconds is not None]
        paces = [part.processed for part in parts if part.processed is not None]
        return cls(
            sum(part.records for part in parts),
            max(waited, default=None),
            sum(part.arriving for part in parts),
            sum(paces) if parts and len(paces) == len(parts) else None,
        )

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "catch_up": self.catch_up}


@dataclass(frozen=True)
class PartitionLag:
    """One partition, for one consumer. member: its owner; None if nobody has it."""

    topic: str
    consumer: ConsumingJob
    partition: int
    member: str | None
    position: int
    end: int
    behind: Behind


@dataclass(frozen=True)
class ShownRebalance:
    """A rebalance as it is shown: what a member gained or lost, and how long that stood still, in seconds.

    stood_still: the longest. by_partition: of each gained partition; None if it was not read before the next
    rebalance.
    """

    at: datetime
    topic: str
    member: str
    generation: int
    why: str
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    stood_still: float | None
    by_partition: dict[int, float | None]

    def document(self) -> dict[str, Any]:
        partitions = [
            {"partition": number, "stood_still": seconds} for number, seconds in self.by_partition.items()
        ]
        return {**asdict(self), "by_partition": partitions}


@dataclass(frozen=True)
class LagReport:
    """A look. problems: topics that could not be looked at, and why."""

    at: datetime
    partitions: tuple[PartitionLag, ...]
    rebalances: tuple[ShownRebalance, ...]
    problems: dict[str, str]

    def only(self, topic: str) -> LagReport:
        """What it says of one topic."""
        return LagReport(
            self.at,
            tuple(each for each in self.partitions if each.topic == topic),
            tuple(each for each in self.rebalances if each.topic == topic),
            {name: said for name, said in self.problems.items() if name == topic},
        )

    def by_topic(self) -> list[tuple[str, ConsumingJob, Behind]]:
        """Each topic and consumer."""
        sums = _summed(self.partitions, lambda each: (each.topic, each.consumer))
        return [(topic, consumer, behind) for (topic, consumer), behind, _ in sums]

    def by_member(self) -> list[tuple[str, ConsumingJob, str, list[int], Behind]]:
        """Each topic, consumer and member with its partitions."""
        owned = [each for each in self.partitions if each.member is not None]
        sums = _summed(owned, lambda each: (each.topic, each.consumer, each.member))
        return [(*key, [each.partition for each in parts], behind) for key, behind, parts in sums]

    def document(self) -> dict[str, Any]:
        """As JSON: partitions, and their sums by topic and by member."""
        return {
            "at": self.at,
            "topics": [
                {"topic": topic, "consumer": consumer, **behind.document()}
                for topic, consumer, behind in self.by_topic()
            ],
            "members": [
                {
                    "topic": topic,
                    "consumer": consumer,
                    "member": member,
                    "partitions": partitions,
                    **behind.document(),
                }
                for topic, consumer, member, partitions, behind in self.by_member()
            ],
            "partitions": [
                {
                    "topic": each.topic,
                    "consumer": each.consumer,
                    "partition": each.partition,
                    "member": each.member,
                    "position": each.position,
                    "end": each.end,
                    **each.behind.document(),
                }
                for each in self.partitions
            ],
            "rebalances": [each.document() for each in self.rebalances],
            "problems": [{"topic": topic, "message": said} for topic, said in self.problems.items()],
        }


def _summed(
    partitions: Iterable[PartitionLag], key: Callable[[PartitionLag], Any]
) -> list[tuple[Any, Behind, list[PartitionLag]]]:
    groups: dict[Any, list[PartitionLag]] = {}
    for each in partitions:
        groups.setdefault(key(each), []).append(each)
    return [(of, Behind.of([part.behind for part in parts]), parts) for of, parts in sorted(groups.items())]
