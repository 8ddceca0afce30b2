"""A cooperative group hands a partition out only after its owner gave it up."""

from __future__ import annotations

from hypothesis import given

from sluice.assignment.assign import assign
from sluice.assignment.base import Group
from sluice.assignment.cooperative import this_round
from tests.assignment.groups import groups, owning
from tests.examples import examples


@given(group=groups())
@examples(200)
def test_nothing_is_handed_out_that_another_member_has(group: Group) -> None:
    handed = this_round(group, assign(group))
    for member in group.members:
        others = frozenset().union(*(each.owned for each in group.members if each.id != member.id))
        assert not others & set(handed[member.id])


@given(group=groups())
@examples(200)
def test_two_rounds_bring_the_whole_assignment(group: Group) -> None:
    wanted = assign(group)
    handed = this_round(group, wanted)
    second = owning(group, handed)
    assert this_round(second, wanted) == wanted
    assert all(set(handed[member]) <= set(held) for member, held in wanted.items())
