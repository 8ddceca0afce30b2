"""The archiver's assignor: `sluice.assignment` in the terms of kafka-python's cooperative protocol.

Each member tells the leader its partitions, their generation, their loads and its own speed (JSON in the
subscription's user data). The leader tells each member why the group was assigned again (JSON in the
assignment's).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor, RebalanceProtocol
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sluice.assignment.assign import assign
from sluice.assignment.base import AssignedPartition, Group, Member, PartitionLoad
from sluice.assignment.cooperative import this_round

#: A subscription says the generation from this version of Kafka's protocol on.
VERSION = 2
NO_GENERATION = -1
#: More than this no partition has or gets, and no member archives, in a second; what says so is not believed.
MOST_BYTES = 1e18
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
_UUID = 36  # characters that kafka-python puts after a member's name and a dash


class LoadAssignor(AbstractPartitionAssignor):  # type: ignore[misc]
    """One member's assignor.

    loads: asks for the loads of the topic's partitions that the member has. speed: asks how many bytes a
    second it can archive; None while nobody knows. why: of the last assignment.
    """

    name = "sluice-load"

    def __init__(
        self, topic: str, loads: Callable[[], Mapping[int, PartitionLoad]], speed: Callable[[], float | None]
    ) -> None:
        self.generation, self.why = NO_GENERATION, ""
        self._topic, self._loads, self._speed = topic, loads, speed
        self._owned: frozenset[AssignedPartition] = frozenset()
        # What the leader remembers of the round before; a new leader knows nothing.
        self._members: frozenset[str] = frozenset()
        self._partitions: Mapping[str, int] = {}
        self._moving = False
        self._known: dict[AssignedPartition, PartitionLoad] = {}

    def supported_protocols(self) -> list[RebalanceProtocol]:
        return [RebalanceProtocol.COOPERATIVE]

    def forget(self) -> None:
        """The member has lost what it owned: it claims nothing when it joins again."""
        self._owned, self.generation = frozenset(), NO_GENERATION

    def metadata(self, topics: Iterable[str]) -> Any:
        loads = {number: list(load) for number, load in self._loads().items()}
        return ConsumerProtocolSubscription(
            version=VERSION,
            topics=sorted(topics),
            user_data=json.dumps({"loads": {self._topic: loads}, "speed": self._speed()}).encode(),
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in _by_topic(self._owned).items()
            ],
            generation_id=self.generation,
        )

    def on_assignment(self, assignment: Any, generation: int) -> None:
        self._owned = frozenset(AssignedPartition(at.topic, at.partition) for at in assignment.partitions())
        self.generation, self.why = generation, _why_of(assignment.user_data)

    def assign(self, cluster: Any, members: Iterable[Any]) -> dict[str, Any]:
        """What each member gets in this round; only the leader is asked."""
        told = list(members)
        for each in told:
            self._known |= loads_of(each.metadata.user_data)
        joined = tuple(member_of(each.member_id, each.metadata) for each in told)
        topics = frozenset[str]().union(*(member.topics for member in joined))
        partitions = {topic: self._count(cluster, topic, joined) for topic in topics}
        group = Group(joined, partitions, self._known)
        wanted = assign(group)
        given = this_round(group, wanted)
        why = json.dumps({"why": self._reason(group)}).encode()
        self._members = frozenset(member.id for member in joined)
        self._partitions, self._moving = partitions, given != wanted
        return {
            member: ConsumerProtocolAssignment(VERSION, list(_by_topic(held).items()), why)
            for member, held in given.items()
        }

    def _count(self, cluster: Any, topic: str, members: Iterable[Member]) -> int:
        """How many partitions the topic has.

        While a broker restarts, an answer of Kafka's may not have the topic. To assign nothing would stop all
        members, so then it has as many partitions as before, or as its members own.
        """
        if known := cluster.partitions_for_topic(topic):
            return len(known)
        owned = (each.number + 1 for member in members for each in member.owned if each.topic == topic)
        return max(self._partitions.get(topic, 0), max(owned, default=0))

    def _reason(self, group: Group) -> str:
        """Why the group is assigned again, by what this leader can know."""
        now = {member.id for member in group.members}
        came = sorted(member.id for member in group.members if member.generation == NO_GENERATION)
        said = [f"{named(member)} joined" for member in came]
        said += [f"{named(member)} left" for member in sorted(self._members - now)]
        if any(count > self._partitions.get(topic, count) for topic, count in group.partitions.items()):
            said.append("partitions were added")
        if not said and self._moving:
            said.append("partitions were handed over")
        if not said:
            all_owned = len(group.owners()) == len(group.all_partitions())
            said.append("members joined again" if all_owned else "a member left")
        return ", ".join(said)


def named(member: str) -> str:
    """A member's name, without the random part of its id."""
    return member[: -_UUID - 1] if len(member) > _UUID + 1 else member


def member_of(member: str, subscription: Any) -> Member:
    """A group's member by what it told when it joined."""
    owned = frozenset(
        AssignedPartition(at.topic, number)
        for at in subscription.owned_partitions or ()
        for number in at.partitions
    )
    speed = speed_of(subscription.user_data)
    return Member(member, frozenset(subscription.topics), owned, speed, subscription.generation_id)


def loads_of(user_data: bytes | None) -> dict[AssignedPartition, PartitionLoad]:
    """The loads that a member told; none if what it told cannot be read, or is no amount of bytes."""
    try:
        found = {
            AssignedPartition(topic, int(number)): PartitionLoad(float(rate), float(lag))
            for topic, loads in _told(user_data)["loads"].items()
            for number, (rate, lag) in loads.items()
        }
    except _UNREADABLE:
        return {}
    return {at: load for at, load in found.items() if all(map(_believed, load))}


def speed_of(user_data: bytes | None) -> float | None:
    """The speed that a member told, bytes a second; None if it told none, or none that can be."""
    try:
        speed = float(_told(user_data)["speed"])
    except _UNREADABLE:
        return None
    return speed if speed > 0 and _believed(speed) else None


def _believed(amount: float) -> bool:
    # JSON of Python's may have NaN and infinity, and one of these would make every weight absurd.
    return 0 <= amount <= MOST_BYTES


def _why_of(user_data: bytes | None) -> str:
    try:
        return str(_told(user_data)["why"])
    except _UNREADABLE:
        return ""


def _told(user_data: bytes | None) -> Any:
    return json.loads(bytes(user_data or b"{}"))


def _by_topic(partitions: Iterable[AssignedPartition]) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(partitions):
        found[topic].append(number)
    return dict(found)
