"""Who holds what while a plan is made. Members, partitions and kinds are numbers, in sorted order.

Partitions are of one *kind* if the same members subscribe to them. Kinds are few even where topics are many,
so a search goes over kinds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from sluice.assignment.base import AssignedPartition, Group
from sluice.assignment.weights import AssignmentWeights

NOBODY = -1
#: A member's partitions of one kind, lightest first: (weight, partition).
Held = list[tuple[int, int]]


class AssignmentBoard:
    """An assignment in the making.

    owner: the member of each partition, or NOBODY. load: the weights that each member holds.
    """

    def __init__(
        self, group: Group, partitions: Sequence[AssignedPartition], weights: AssignmentWeights
    ) -> None:
        self.weights, self.speeds, self.known = weights.partitions, weights.members, weights.known
        kinds: dict[tuple[int, ...], int] = {}
        of_topic: dict[str, int] = {}
        for topic in dict.fromkeys(partition.topic for partition in partitions):
            takers = tuple(m for m, member in enumerate(group.members) if topic in member.topics)
            of_topic[topic] = kinds.setdefault(takers, len(kinds))
        self.takers = list(kinds)
        self.takes = [frozenset(takers) for takers in kinds]
        self.kind = [of_topic[partition.topic] for partition in partitions]
        self.owner = [NOBODY] * len(partitions)
        self.load = [0] * len(group.members)
        #: The mean partition's weight.
        self.mean = sum(self.weights) / len(self.weights)
        self.held: list[list[Held]] = [[[] for _ in kinds] for _ in group.members]

    @property
    def members(self) -> range:
        return range(len(self.load))

    def level(self, members: Sequence[int]) -> float:
        """How busy these members would be if all of them were equally busy."""
        return sum(self.load[member] for member in members) / sum(self.speeds[member] for member in members)

    def busy(self, member: int, more: int = 0) -> float:
        """The member's load over its speed, with `more` load added."""
        return (self.load[member] + more) / self.speeds[member]

    def least_busy(self, kind: int, more: int, but: int = NOBODY) -> int:
        """The least busy member with `more` load of that kind added; NOBODY if no other subscribes."""
        load, speeds = self.load, self.speeds
        best, least = NOBODY, float("inf")
        for member in self.takers[kind]:
            busy = (load[member] + more) / speeds[member]
            if busy < least and member != but:
                best, least = member, busy
        return best

    def give(self, partition: int, member: int) -> None:
        """Give the partition to the member, and take it from its owner if it has one."""
        weight, before, kind = self.weights[partition], self.owner[partition], self.kind[partition]
        if before != NOBODY:
            held = self.held[before][kind]
            del held[bisect_left(held, (weight, partition))]
            self.load[before] -= weight
        insort(self.held[member][kind], (weight, partition))
        self.load[member] += weight
        self.owner[partition] = member
