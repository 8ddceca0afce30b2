"""What a partition's writer tells the consumer's thread, and the heartbeat."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seek:
    """The writer wants the records from `offset` on; those fetched for earlier epochs are void."""

    partition: int
    epoch: int
    offset: int


@dataclass(frozen=True)
class Archived:
    """Everything before `next` is archived (Kafka's group is told, for lag tools)."""

    partition: int
    next: int


@dataclass(frozen=True)
class MemberGone:
    """The topic is no longer the one that the writer was made for."""

    partition: int
    message: str


Event = Seek | Archived | MemberGone


@dataclass
class PartitionProgress:
    """What the heartbeat says of a partition.

    position: the offset after the last record that is archived. buffered: lines that are in no file yet.
    files, lines: what the writer archived since it began.
    """

    state: str = "deriving its position"
    position: int | None = None
    buffered: int = 0
    files: int = 0
    lines: int = 0
    message: str = ""
