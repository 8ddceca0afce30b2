"""A cooperative group hands a partition out only after its owner gave it up."""

from __future__ import annotations

import pytest
from hypothesis import given

from sluice.assignment.assign import assign
from sluice.assignment.base import AssignedPartition, Group, Member
from sluice.assignment.cooperative import this_round
from tests.assignment.groups import groups, owning
from tests.examples import examples


@pytest.mark.slow
@given(group=groups())
@examples(200)
def test_nothing_is_handed_out_that_another_member_has(group: Group) -> None:
    handed = this_round(group, assign(group))
    for member in group.members:
        others = frozenset().union(*(each.owned for each in group.members if each.id != member.id))
        kept = {partition for partition, owner in group.owners().items() if owner == member.id}
        assert kept <= member.owned
        assert not others & set(handed[member.id]) - kept


def test_an_owner_keeps_what_a_member_that_was_dropped_still_claims() -> None:
    at, topics = AssignedPartition("t", 0), frozenset({"t"})
    owner = Member("a", topics, frozenset({at}), generation=5)
    dropped = Member("b", topics, frozenset({at}), generation=3)
    group = Group((owner, dropped), {"t": 1})
    assert this_round(group, {"a": [at], "b": []}) == {"a": [at], "b": []}
    assert this_round(group, {"a": [], "b": [at]}) == {"a": [], "b": []}, "the owner must give it up first"
    alike = Group((owner, Member("b", topics, frozenset({at}), generation=5)), {"t": 1})
    assert this_round(alike, {"a": [at], "b": []}) == {"a": [], "b": []}, "nobody knows whose it is"


@pytest.mark.slow
@given(group=groups())
@examples(200)
def test_two_rounds_bring_the_whole_assignment(group: Group) -> None:
    wanted = assign(group)
    handed = this_round(group, wanted)
    second = owning(group, handed)
    assert this_round(second, wanted) == wanted
    assert all(set(handed[member]) <= set(held) for member, held in wanted.items())
