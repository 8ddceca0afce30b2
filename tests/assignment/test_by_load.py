"""With measured loads and speeds an assignment is whole and settled, and moves what is needed and pays."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.assignment.assign import PAYS, TOLERANCE, assign
from sluice.assignment.base import AssignedPartition, Assignment, Group, Member, PartitionLoad
from sluice.assignment.evaluation import counts, moves
from sluice.assignment.weights import MEAN, weigh
from tests.assignment.groups import TOPICS, fewest_moves, groups, owning

#: Gains are compared as floating-point numbers.
CLOSE = 1e-9


@st.composite
def owned(draw: st.DrawFn, *, alike: bool = False, equal: bool = False) -> Group:
    """A group of which every partition has an owner, with all loads and speeds measured.

    alike: all members subscribe to everything. equal: all loads are equal, and all speeds.
    """
    partitions = {topic: draw(st.integers(1, 6)) for topic in TOPICS}
    names = [f"m{n}" for n in range(draw(st.integers(2, 5)))]
    some = st.frozensets(st.sampled_from(TOPICS))
    # The first one takes everything, so that every partition has a taker.
    topics = {
        name: frozenset(TOPICS) if alike or name == names[0] else draw(some, label=name) for name in names
    }
    owners = {
        AssignedPartition(topic, n): draw(st.sampled_from([each for each in names if topic in topics[each]]))
        for topic, count in partitions.items()
        for n in range(count)
    }
    loads = {each: PartitionLoad(1e6 * (1 if equal else draw(st.integers(1, 100)))) for each in owners}
    members = tuple(
        Member(
            name,
            topics[name],
            frozenset(each for each, owner in owners.items() if owner == name),
            1e6 * (1 if equal else draw(st.integers(1, 10))),
            1,
        )
        for name in names
    )
    return Group(members, partitions, loads)


def held(group: Group) -> Assignment:
    """What the members own."""
    return {member.id: sorted(member.owned) for member in group.members}


class Busy:
    """How busy members are, in the units in which an assignment is made."""

    def __init__(self, group: Group) -> None:
        every = group.all_partitions()
        weights = weigh(group, every)
        self.weights = dict(zip(every, weights.partitions, strict=True))
        self.speeds = dict(zip((each.id for each in group.members), weights.members, strict=True))
        self.level = sum(self.weights.values()) / sum(self.speeds.values())

    def of(self, assignment: Mapping[str, list[AssignedPartition]]) -> dict[str, float]:
        return {
            member: sum(self.weights[each] for each in some) / self.speeds[member]
            for member, some in assignment.items()
        }


@pytest.mark.slow
@given(group=groups(measured=True), seed=st.integers(0, 99))
def test_a_measured_group_is_handed_out_wholly_and_in_whatever_order_it_is_told(
    group: Group, seed: int
) -> None:
    found = assign(group)
    assert sorted(each for some in found.values() for each in some) == group.all_partitions()
    topics = {member.id: member.topics for member in group.members}
    assert all(each.topic in topics[member] for member, some in found.items() for each in some)
    shuffled = random.Random(seed)  # noqa: S311 - no secret
    members = tuple(shuffled.sample(group.members, len(group.members)))
    loads = dict(shuffled.sample(list(group.loads.items()), len(group.loads)))
    assert assign(Group(members, group.partitions, loads)) == found


@given(group=groups(measured=True) | owned())
def test_a_measured_group_that_has_its_assignment_moves_nothing(group: Group) -> None:
    found = assign(group)
    assert assign(owning(group, found)) == found


@given(group=owned())
def test_nothing_moves_while_everybody_is_within_the_tolerance(group: Group) -> None:
    busy = Busy(group)
    # As wide a tolerance as makes this group one of which nobody needs anything.
    apart = max(abs(each / busy.level - 1) for each in busy.of(held(group)).values())
    assert assign(group, tolerance=apart * (1 + CLOSE) + CLOSE) == held(group)


@pytest.mark.slow
@given(group=owned())
def test_what_moves_makes_the_busiest_less_busy_and_nobody_as_busy_as_it_was(group: Group) -> None:
    busy, found = Busy(group), assign(group)
    before, after = (sorted(busy.of(each).values(), reverse=True) for each in (held(group), found))
    if found == held(group):
        return
    assert after < before
    first = next(n for n, (one, other) in enumerate(zip(after, before, strict=True)) if one != other)
    assert after[first] <= before[first] - PAYS * MEAN * 0.9 / max(busy.speeds.values())


@given(group=owned())
def test_something_moves_only_if_a_member_is_beyond_the_tolerance(group: Group) -> None:
    busy = Busy(group)
    apart = [each / busy.level - 1 for each in busy.of(held(group)).values()]
    if assign(group) != held(group):
        assert max(map(abs, apart)) > TOLERANCE - CLOSE


@given(group=owned())
def test_no_single_move_that_would_pay_is_left_to_the_busiest(group: Group) -> None:
    busy, found = Busy(group), assign(group)
    now = busy.of(found)
    giver = min(now, key=lambda member: (-now[member], member))
    topics = {member.id: member.topics for member in group.members}
    mean = sum(busy.weights.values()) / len(busy.weights)
    limit = now[giver] - PAYS * mean / busy.speeds[giver]
    too_busy = now[giver] > busy.level * (1 + TOLERANCE)
    idler_than = float("inf") if too_busy else busy.level * (1 - TOLERANCE)
    for each in found[giver]:
        for taker, takes in topics.items():
            if taker == giver or each.topic not in takes or now[taker] >= idler_than:
                continue
            given_away = now[giver] - busy.weights[each] / busy.speeds[giver]
            taken = now[taker] + busy.weights[each] / busy.speeds[taker]
            assert max(given_away, taken) > limit * (1 - CLOSE), f"{each} could go to {taker}"


@given(group=owned(alike=True, equal=True))
def test_of_equal_partitions_no_more_move_than_an_even_number_asks_for(group: Group) -> None:
    numbers = counts(held(group))
    total = sum(numbers)
    found = assign(group)
    moved = moves(held(group), found)
    assert moved.all == moved.living <= fewest_moves(numbers, total)
    even = range(total // len(numbers), -(-total // len(numbers)) + 1)
    mean = total / len(numbers)
    assert all(each in even or abs(each / mean - 1) <= TOLERANCE + CLOSE for each in counts(found))


@given(group=owned(alike=True, equal=True), gone=st.integers(0, 4))
def test_of_equal_partitions_a_member_that_leaves_moves_only_its_own(group: Group, gone: int) -> None:
    settled = owning(group, assign(group))
    leaver = settled.members[gone % len(settled.members)].id
    moved = moves(held(settled), assign(owning(settled, held(settled), without=leaver)))
    assert moved == (len(held(settled)[leaver]), 0)
