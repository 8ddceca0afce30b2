"""What a partition's writer tells the consumer's thread."""

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
