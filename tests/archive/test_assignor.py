"""The archiver's assignor in kafka-python's terms: what members tell, and what the leader answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from sluice.archive.assignor import NO_GENERATION, LoadAssignor, loads_of, named, speed_of
from sluice.assignment.base import AssignedPartition, PartitionLoad

TOPIC = "logs"


@dataclass
class Cluster:
    """The leader's view of Kafka. partitions: None if its last answer does not have the topic."""

    partitions: int | None

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return None if self.partitions is None else set(range(self.partitions))


@dataclass
class Joined:
    """A member as the leader meets it."""

    member_id: str
    metadata: Any


@dataclass
class Group:
    """A group without a broker: every message goes through Kafka's wire format."""

    partitions: int
    loads: dict[int, PartitionLoad] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    members: dict[str, LoadAssignor] = field(default_factory=dict)
    owned: dict[str, set[int]] = field(default_factory=dict)
    generation: int = 0
    hidden: bool = False

    def join(self, name: str) -> None:
        def loads() -> dict[int, PartitionLoad]:
            return {number: self.loads[number] for number in self.owned[name] if number in self.loads}

        self.owned[name] = set()
        self.members[name] = LoadAssignor(TOPIC, loads, lambda: self.speeds.get(name))

    def leave(self, name: str) -> None:
        del self.members[name], self.owned[name]

    def round(self) -> bool:
        """One rebalance, led by the first member; whether members give something up, so that one follows."""
        told = [
            Joined(name, ConsumerProtocolSubscription.decode(each.metadata([TOPIC]).encode()))
            for name, each in self.members.items()
        ]
        leader = next(iter(self.members.values()))
        answers = leader.assign(Cluster(None if self.hidden else self.partitions), told)
        assert answers.keys() == self.members.keys()
        self.generation += 1
        again = False
        for name, answer in answers.items():
            assignment = ConsumerProtocolAssignment.decode(answer.encode())
            self.members[name].on_assignment(assignment, self.generation)
            given_now = {at.partition for at in assignment.partitions()}
            again |= bool(self.owned[name] - given_now)
            self.owned[name] = given_now
        held = [number for numbers in self.owned.values() for number in numbers]
        assert len(held) == len(set(held)), "no partition has two owners, in no round"
        return again

    def settle(self) -> int:
        """Rounds until nobody gives anything up; every partition has an owner then."""
        rounds = 1
        while self.round():
            rounds += 1
            assert rounds < 10
        assert set().union(*self.owned.values()) == set(range(self.partitions))
        return rounds

    def why(self) -> set[str]:
        return {each.why for each in self.members.values()}


@given(st.integers(1, 12), st.lists(st.sampled_from(["join", "leave", "again"]), max_size=12))
def test_every_partition_has_one_owner_whoever_comes_and_goes(partitions: int, steps: list[str]) -> None:
    group = Group(partitions)
    group.join("m0")
    group.settle()
    for number, step in enumerate(steps):
        if step == "join":
            group.join(f"m{number + 1}")
        elif step == "leave" and len(group.members) > 1:
            group.leave(next(iter(group.members)))  # the leader, too
        group.settle()
        sizes = [len(numbers) for numbers in group.owned.values()]
        assert max(sizes) - min(sizes) <= 1


def test_a_partition_moves_in_two_rounds_and_the_others_stay() -> None:
    group = Group(4)
    group.join("a")
    group.settle()
    group.join("b")
    assert group.round(), "a gives two up"
    kept = set(group.owned["a"])
    assert (len(kept), group.owned["b"]) == (2, set())
    assert not group.round()
    assert group.owned["a"] == kept


def test_a_hot_partition_has_a_member_of_its_own() -> None:
    group = Group(6, {number: PartitionLoad(1000.0 if number == 3 else 100.0) for number in range(6)})
    for name in "ab":
        group.join(name)
    group.settle()
    group.join("c")
    group.settle()
    assert {3} in group.owned.values()


def test_a_slow_member_gets_less() -> None:
    group = Group(12, {number: PartitionLoad(100.0) for number in range(12)}, {"a": 4e6, "b": 2e6})
    for name in "abc":
        group.join(name)
    group.settle()
    group.leave("c")  # nobody knows how fast it is
    group.settle()
    assert {name: len(owned) for name, owned in group.owned.items()} == {"a": 8, "b": 4}


def test_the_leader_remembers_the_load_of_a_partition_whose_owner_left() -> None:
    group = Group(
        4, {0: PartitionLoad(900.0), 1: PartitionLoad(900.0), 2: PartitionLoad(10.0), 3: PartitionLoad(10.0)}
    )
    for name in "abc":
        group.join(name)
    group.settle()
    group.round()  # now the leader was told all loads
    for name in list(group.members)[1:]:
        if group.owned[name] & {0, 1}:
            group.leave(name)
            break
    group.settle()
    assert not any({0, 1} <= numbers for numbers in group.owned.values())


def test_a_member_that_lost_its_partitions_claims_none() -> None:
    group = Group(4)
    for name in "ab":
        group.join(name)
    group.settle()
    stale = group.members["b"]
    stale.forget()
    told = stale.metadata([TOPIC])
    assert (told.owned_partitions, told.generation_id) == ([], NO_GENERATION)


def test_members_are_told_why() -> None:
    group = Group(4)
    group.join("archiver-8c5f0a52-7f83-4d2c-9a3e-5a4f0e1b2c3d")
    group.settle()
    assert group.why() == {"archiver joined"}
    group.join("archiver-2-8c5f0a52-7f83-4d2c-9a3e-5a4f0e1b2c3d")
    group.round()
    assert group.why() == {"archiver-2 joined"}
    group.round()
    assert group.why() == {"partitions were handed over"}
    group.partitions = 5
    group.round()
    assert group.why() == {"partitions were added"}
    group.leave("archiver-2-8c5f0a52-7f83-4d2c-9a3e-5a4f0e1b2c3d")
    group.round()
    assert group.why() == {"archiver-2 left"}


def test_a_new_leader_sees_that_somebody_left() -> None:
    group = Group(4)
    for name in "ab":
        group.join(name)
    group.settle()
    group.leave("a")
    group.settle()
    assert group.why() == {"a member left"}


def test_what_cannot_be_read_is_no_load() -> None:
    for loads in (b"5", b"[]", b'{"logs": 5}', b'{"logs": {"0": [1]}}', b'{"logs": {"x": [1, 2]}}'):
        assert loads_of(b'{"loads": %s}' % loads) == {}
    for told in (None, b"", b"{", b"[]", b"\xff", b'{"loads": ', b"[" * 100_000):
        assert (loads_of(told), speed_of(told)) == ({}, None)
    for amount in (b"NaN", b"Infinity", b"-1", b"1e300", b"1" + b"0" * 400):
        assert loads_of(b'{"loads": {"logs": {"0": [%s, 0]}}}' % amount) == {}
        assert loads_of(b'{"loads": {"logs": {"0": [0, %s]}}}' % amount) == {}
        assert speed_of(b'{"speed": %s}' % amount) is None
    assert (speed_of(b'{"speed": 0}'), speed_of(b'{"speed": null}')) == (None, None)
    told = b'{"loads": {"logs": {"3": [1.5, 2]}}, "speed": 7}'
    assert (loads_of(told), speed_of(told)) == ({AssignedPartition("logs", 3): PartitionLoad(1.5, 2.0)}, 7.0)


def test_members_keep_their_partitions_while_kafka_does_not_say_how_many_there_are() -> None:
    group = Group(5)
    for name in "ab":
        group.join(name)
    group.settle()
    before = {name: set(numbers) for name, numbers in group.owned.items()}
    group.hidden = True
    group.round()
    assert group.owned == before
    group.leave("a")  # it led; the next leader knows only what members own
    group.round()
    assert group.owned["b"] >= before["b"]
    group.hidden = False
    group.settle()


def test_a_load_that_cannot_be_does_not_stop_the_group() -> None:
    group = Group(
        4,
        {
            0: PartitionLoad(float("nan")),
            1: PartitionLoad(1.0),
            2: PartitionLoad(float("inf"), float("inf")),
            3: PartitionLoad(-5.0),
        },
    )
    for name in "ab":
        group.join(name)
    group.settle()
    group.join("c")
    group.settle()


def test_a_short_id_is_its_own_name() -> None:
    assert named("short") == "short"
