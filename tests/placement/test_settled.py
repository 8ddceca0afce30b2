"""A settled plan needs no other one after it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.placement.base import Cluster
from sluice.placement.plan import Policy, plan
from sluice.placement.settled import settled, within
from tests.examples import examples
from tests.placement.clusters import clusters, slots


def test_a_unit_does_not_move_on_after_the_next_plan() -> None:
    cluster = slots(4, 0, 0)
    found = settled(cluster)
    after = cluster.having(found.result(cluster))
    assert len(found.moves) == 2
    assert sorted(after.placed.values()) == ["h1", "h1", "h2", "h3"]
    assert plan(after).moves == []


@given(cluster=clusters(fixed=True), budget=st.integers(0, 2))
@examples(100)
def test_what_must_start_waits_for_no_move_beyond_the_budget(cluster: Cluster, budget: int) -> None:
    found = within(cluster, budget)
    assert len(found.moves) <= budget
    moved = [move.unit for step in found.steps for move in step]
    assert len(moved) == len(set(moved))
    started = {move.unit for move in found.starts}
    nowhere = {unit.name for unit in cluster.units} - set(cluster.running())
    assert started | {each.unit for each in found.unplaced} >= nowhere
    running = cluster.running()
    too_small = {running[each.unit] for each in found.unplaced if each.unit in running}  # for what runs there
    waits = [each.why for each in found.unplaced if each.unit in nowhere and "is not free yet" in each.why]
    assert not [why for why in waits if not any(f"on {host} is" in why for host in too_small)]


@given(cluster=clusters(fixed=True), budget=st.none() | st.integers(0, 3))
@examples(100)
def test_it_is_a_plan_within_its_budget_and_moves_no_unit_twice(cluster: Cluster, budget: int | None) -> None:
    found = settled(cluster, Policy(budget=budget))
    moved = [move.unit for step in found.steps for move in step]
    assert len(moved) == len(set(moved))
    assert budget is None or len(found.moves) <= budget
    assert all(move.source == cluster.running().get(move.unit) for step in found.steps for move in step)
    assert settled(cluster, Policy(budget=budget)) == found
    fixed = {unit.name for unit in cluster.units if unit.fixed}
    assert not fixed & set(moved)
