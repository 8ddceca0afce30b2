"""An assignment is whole, allowed, even, and moves no more than it must."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.assignment.assign import TOLERANCE, assign
from sluice.assignment.base import AssignedPartition, Group, Member, PartitionLoad
from sluice.assignment.evaluation import by_load, by_number, counts, moves
from tests.assignment.groups import C0, C1, C2, PAPER, fewest, fewest_moves, groups, owning
from tests.examples import examples


@pytest.mark.slow
@given(group=groups())
@examples(200)
def test_every_partition_has_exactly_one_owner_that_subscribes_to_it(group: Group) -> None:
    found = assign(group)
    assert set(found) == {member.id for member in group.members}
    assert sorted(each for held in found.values() for each in held) == group.all_partitions()
    for member in group.members:
        assert all(each.topic in member.topics for each in found[member.id])


@given(group=groups(), seed=st.integers(0, 99))
def test_the_order_in_which_a_group_is_described_changes_nothing(group: Group, seed: int) -> None:
    shuffled = random.Random(seed)  # noqa: S311 - no secret
    loads = dict(shuffled.sample(list(group.loads.items()), len(group.loads)))
    other = Group(
        tuple(shuffled.sample(group.members, len(group.members))),
        dict(reversed(list(group.partitions.items()))),
        loads,
    )
    assert assign(other) == assign(group)


@pytest.mark.slow
@given(group=groups())
@examples(200)
def test_a_group_that_has_its_assignment_keeps_it(group: Group) -> None:
    found = assign(group)
    assert assign(owning(group, found)) == found


@given(group=groups(most=2, members=3, measured=False))
@examples(200)
def test_without_loads_the_numbers_are_as_even_as_subscriptions_allow(group: Group) -> None:
    assert sorted(counts(assign(group)), reverse=True) == fewest(group)


@pytest.mark.slow
@given(group=groups(alike=True, measured=False))
@examples(200)
def test_equal_members_without_loads_move_the_fewest_that_evenness_asks_for(group: Group) -> None:
    owners = group.owners()
    owned = [list(owners.values()).count(member.id) for member in group.members]
    before = {m.id: [each for each, owner in owners.items() if owner == m.id] for m in group.members}
    moved = moves(before, assign(group))
    assert moved.all == moved.living == fewest_moves(owned, len(group.all_partitions()))


@pytest.mark.slow
@given(group=groups(alike=True), gone=st.integers(0, 5))
def test_without_loads_a_member_that_leaves_moves_nothing_between_the_others(group: Group, gone: int) -> None:
    group = replace(group, loads={}, members=tuple(replace(m, speed=None) for m in group.members))
    before = assign(group)
    leaver = group.members[gone % len(group.members)].id
    after = assign(owning(group, before, without=leaver))
    assert moves(before, after).living == 0


def test_papers_group_is_four_four_five_and_moves_only_what_the_absent_member_had() -> None:
    group = Group((C0, C1, C2), PAPER)
    first = assign(group)
    assert counts(first) == [4, 4, 5]
    assert by_number(first) == pytest.approx(2 / 13)
    gone = assign(owning(group, first, without="C0"))
    assert sorted(counts(gone)) == [6, 7]
    assert moves(first, gone) == (4, 0)
    back = assign(owning(group, gone))
    assert counts(back) == [4, 4, 5]
    assert moves(gone, back) == (4, 4)


def test_a_partition_of_five_times_the_load_has_fewer_beside_it() -> None:
    partitions = {"t": 14}
    loads = {AssignedPartition("t", n): PartitionLoad(5e6 if n == 3 else 1e6) for n in range(14)}
    group = Group(tuple(Member(f"m{n}", frozenset("t")) for n in range(3)), partitions, loads)
    found = assign(group)
    assert by_load(found, {each: load.rate for each, load in loads.items()}) == 0
    (hot,) = (held for held in found.values() if AssignedPartition("t", 3) in held)
    assert len(hot) == 2


def test_a_member_of_half_the_speed_gets_half_as_much() -> None:
    members = tuple(Member(f"m{n}", frozenset("t"), speed=speed) for n, speed in enumerate((2e6, 2e6, 1e6)))
    assert counts(assign(Group(members, {"t": 20}))) == [8, 8, 4]


def test_what_waits_counts_beside_what_arrives() -> None:
    loads = {AssignedPartition("t", n): PartitionLoad(0.0, 6e8 if n < 2 else 6e7) for n in range(4)}
    members = (Member("a", frozenset("t")), Member("b", frozenset("t")))
    found = assign(Group(members, {"t": 4}, loads))
    assert all(sum(each.number < 2 for each in held) == 1 for held in found.values())


def test_idle_partitions_are_spread_by_number() -> None:
    loads = {AssignedPartition("t", n): PartitionLoad(1e6 if n < 2 else 0.0) for n in range(22)}
    members = (Member("a", frozenset("t")), Member("b", frozenset("t")))
    assert counts(assign(Group(members, {"t": 22}, loads))) == [11, 11]


def test_a_small_unevenness_moves_nothing_and_a_large_one_does() -> None:
    held = frozenset(AssignedPartition("t", n) for n in range(10))
    rest = frozenset(AssignedPartition("t", n) for n in range(10, 20))
    members = (Member("a", frozenset("t"), held), Member("b", frozenset("t"), rest))

    def moved(busier: float) -> int:
        loads = {AssignedPartition("t", n): PartitionLoad(busier if n < 10 else 1.0) for n in range(20)}
        before = {member.id: sorted(member.owned) for member in members}
        return moves(before, assign(Group(members, {"t": 20}, loads))).living

    assert moved(1 + 1.8 * TOLERANCE) == 0
    assert moved(2.0) > 0


def test_a_new_member_gets_work_though_nobody_is_too_busy() -> None:
    partitions = {"t": 400}
    members = tuple(Member(f"m{n:02}", frozenset("t")) for n in range(40))
    loads = {AssignedPartition("t", n): PartitionLoad(1.0) for n in range(400)}
    group = Group(members, partitions, loads)
    before = assign(owning(group, assign(group), without="m07"))
    after = assign(owning(group, before))
    assert len(after["m07"]) >= 10 * (1 - TOLERANCE)
    assert moves(before, after).all == len(after["m07"])


def test_a_chain_helps_a_member_that_shares_no_topic_with_the_idle_one() -> None:
    a = Member("a", frozenset({"x"}), frozenset(AssignedPartition("x", n) for n in range(4)))
    b = Member("b", frozenset({"x", "y"}), frozenset(AssignedPartition("y", n) for n in range(3)))
    c = Member("c", frozenset({"y"}))
    found = assign(Group((a, b, c), {"x": 4, "y": 3}))
    assert sorted(counts(found)) == [2, 2, 3]


def test_a_claim_of_an_older_generation_gives_way() -> None:
    both = frozenset({AssignedPartition("t", 0)})
    members = (
        Member("a", frozenset("t"), both, generation=4),
        Member("b", frozenset("t"), both, generation=5),
    )
    assert assign(Group(members, {"t": 1})) == {"a": [], "b": [AssignedPartition("t", 0)]}


@pytest.mark.slow
@pytest.mark.parametrize("topics", [1, 10, 50])
@pytest.mark.parametrize("known", [False, True], ids=["by number", "by load"])
def test_fifty_members_and_a_thousand_partitions_take_under_50_ms(topics: int, known: bool) -> None:
    chance = random.Random(1)  # noqa: S311 - no secret
    partitions = {f"t{n:02}": 1000 // topics for n in range(topics)}
    members = tuple(
        Member(f"m{n:02}", frozenset(partitions), speed=chance.uniform(0.5, 1) if known else None)
        for n in range(50)
    )
    every = Group(members, partitions).all_partitions()
    loads = {each: PartitionLoad(chance.paretovariate(1.2)) for each in every} if known else {}
    group = Group(members, partitions, loads)
    first = assign(group)
    gone = assign(owning(group, first, without="m00"))
    for case in (group, owning(group, first, without="m00"), owning(group, gone)):
        took = []
        for _ in range(3):
            began = time.process_time()
            assign(case)
            took.append(time.process_time() - began)
        assert min(took) < 0.05
