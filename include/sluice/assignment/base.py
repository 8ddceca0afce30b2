"""The input of an assignment: a group's members and the partitions of its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class AssignedPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


class PartitionLoad(NamedTuple):
    """What a partition asks of its owner: bytes a second that arrive, smoothed, and bytes that wait."""

    rate: float
    lag: float = 0.0


@dataclass(frozen=True)
class Member:
    """A member of the group.

    topics: those it subscribes to. owned: the partitions that it has now. speed: the bytes a second that it
    was seen to process, a second of work; None if nobody saw that. generation: of the group, when the
    member got what it owns; of two members that claim a partition, the later one has it.
    """

    id: str
    topics: frozenset[str]
    owned: frozenset[AssignedPartition] = frozenset()
    speed: float | None = None
    generation: int = 0


@dataclass(frozen=True)
class Group:
    """A group that is to be assigned.

    partitions: how many each topic has, by its name. loads: those that are known.
    """

    members: tuple[Member, ...]
    partitions: Mapping[str, int]
    loads: Mapping[AssignedPartition, PartitionLoad] = field(default_factory=dict)

    def all_partitions(self) -> list[AssignedPartition]:
        """Every partition that somebody subscribes to, sorted."""
        wanted = frozenset[str]().union(*(member.topics for member in self.members))
        return [
            AssignedPartition(topic, number)
            for topic in sorted(wanted & self.partitions.keys())
            for number in range(self.partitions[topic])
        ]

    def owners(self) -> dict[AssignedPartition, str]:
        """The living owner of each owned partition, if it still subscribes to the topic.

        Of two claims the one of the later generation counts; of two equal ones, neither.
        """
        claims: dict[AssignedPartition, tuple[int, str | None]] = {}
        for member in self.members:
            for partition in member.owned:
                if partition.topic not in member.topics or partition.number >= self.partitions.get(
                    partition.topic, 0
                ):
                    continue
                rival = claims.get(partition)
                if rival is None or rival[0] < member.generation:
                    claims[partition] = member.generation, member.id
                elif rival[0] == member.generation:
                    claims[partition] = member.generation, None
        return {partition: owner for partition, (_, owner) in claims.items() if owner is not None}


#: The partitions of each member, sorted; every member is there, an idle one with none.
Assignment = dict[str, list[AssignedPartition]]
