"""A plan is possible at each step, keeps groups apart, evens out, and moves little."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.placement.base import Cluster, ClusterRefused, HostSlots, Plan, Unit
from sluice.placement.measures import colocations, load_spread, shares
from sluice.placement.plan import Policy, plan
from sluice.placement.usage import slots_used
from tests.examples import examples
from tests.placement.clusters import clusters, slots


def units_by_name(cluster: Cluster) -> dict[str, Unit]:
    return {unit.name: unit for unit in cluster.units}


@pytest.mark.slow
@given(cluster=clusters(choosy=True))
@examples(150)
def test_every_unit_runs_once_or_the_plan_says_why_not(cluster: Cluster) -> None:
    found = plan(cluster)
    after = found.result(cluster)
    names = {host.name for host in cluster.hosts}
    assert set(after.values()) <= names
    unplaced = [each.unit for each in found.unplaced]
    assert sorted([*after, *(name for name in unplaced if name not in after)]) == sorted(
        units_by_name(cluster)
    )
    assert all(each.why for each in (*found.unplaced, *found.starts, *found.moves))


@pytest.mark.slow
@given(cluster=clusters(choosy=True))
@examples(150)
def test_each_step_finds_room_while_units_that_move_run_on_both_hosts(cluster: Cluster) -> None:
    units, placed = units_by_name(cluster), cluster.running()
    for step in plan(cluster).steps:
        used = slots_used(cluster, placed)
        there = {(host, units[unit].group) for unit, host in placed.items() if units[unit].group}
        groups: list[str] = []
        for move in step:
            unit = units[move.unit]
            assert placed.get(move.unit) == move.source != move.target
            used[move.target] += unit.slots
            if unit.group:
                assert (move.target, unit.group) not in there, "two of a group on one host"
                there.add((move.target, unit.group))
                groups.append(unit.group)
        arrivals = {move.target for move in step}
        assert all(used[host.name] <= host.slots for host in cluster.hosts if host.name in arrivals)
        moving = {units[move.unit].group for move in step if move.source is not None}
        assert all(groups.count(group) == 1 for group in moving if group), "two of a group at a time"
        placed |= {move.unit: move.target for move in step}


@given(cluster=clusters(choosy=True), seed=st.integers(0, 99))
@examples(100)
def test_the_order_of_a_description_changes_nothing(cluster: Cluster, seed: int) -> None:
    shuffled = random.Random(seed)  # noqa: S311 - no secret
    other = Cluster(
        tuple(shuffled.sample(cluster.hosts, len(cluster.hosts))),
        tuple(shuffled.sample(cluster.units, len(cluster.units))),
        dict(shuffled.sample(list(cluster.placed.items()), len(cluster.placed))),
    )
    assert plan(other) == plan(cluster)


@pytest.mark.slow
@given(cluster=clusters(fixed=True))
@examples(150)
def test_fixed_units_stay_and_nothing_moves_twice(cluster: Cluster) -> None:
    found = plan(cluster)
    fixed = {unit.name for unit in cluster.units if unit.fixed}
    moved = [move.unit for step in found.steps for move in step]
    assert not fixed & {*moved, *(each.unit for each in found.unplaced)}
    assert len(moved) == len(set(moved))
    units = units_by_name(cluster)
    arrived = Cluster(cluster.hosts, cluster.units, found.result(cluster))
    for move in (move for step in found.steps for move in step):
        group, there = units[move.unit].group, [u for u, h in arrived.placed.items() if h == move.target]
        assert group is None or sum(units[unit].group == group for unit in there) == 1


@pytest.mark.slow
@given(cluster=clusters(fixed=True, choosy=True))
@examples(150)
def test_a_unit_gets_no_host_that_may_not_have_it_and_leaves_one_or_has_no_place(cluster: Cluster) -> None:
    found = plan(cluster)
    moved = {move.unit: move.target for step in found.steps for move in step}
    unplaced = {each.unit for each in found.unplaced}
    for unit in cluster.units:
        if unit.hosts is None:
            continue
        assert moved.get(unit.name) is None or moved[unit.name] in unit.hosts
        if cluster.placed.get(unit.name) not in unit.hosts and not unit.fixed:
            assert unit.name in {*moved, *unplaced}


def test_a_host_that_may_have_none_of_the_units_stays_idle_and_the_others_even() -> None:
    hosts, some = (HostSlots("h1", 8), HostSlots("h2", 8), HostSlots("h3", 8)), frozenset({"h1", "h2"})
    units = tuple(Unit(f"u{n}", load=1.0, hosts=some) for n in range(4))
    found = plan(Cluster(hosts, units, {unit.name: "h1" for unit in units}))
    assert [move.target for move in found.moves] == ["h2", "h2"]


def test_a_busy_host_gives_what_is_not_fixed() -> None:
    hosts = (HostSlots("h1", 8), HostSlots("h2", 8))
    units = (Unit("a", load=5, fixed=True), Unit("b", load=4), Unit("c", load=1))
    found = plan(Cluster(hosts, units, {"a": "h1", "b": "h1", "c": "h2"}))
    assert [move.unit for move in found.moves] == ["b"]


def test_a_host_that_fixed_units_keep_busy_does_not_hide_one_that_is_about_as_busy() -> None:
    hosts = (HostSlots("h1", 8, 4.0), HostSlots("h2", 8, 4.0), HostSlots("h3", 1, 1.0))
    units = (*(Unit(f"u{n}", load=1.0) for n in range(4)), Unit("v", load=1.0, fixed=True))
    cluster = Cluster(hosts, units, {**{f"u{n}": "h1" for n in range(4)}, "v": "h3"})
    assert sorted(plan(cluster).result(cluster).values()) == ["h1", "h1", "h2", "h2", "h3"]


def test_a_fixed_unit_that_runs_nowhere_is_refused() -> None:
    with pytest.raises(ClusterRefused, match="fixed"):
        plan(Cluster((HostSlots("h1", 8),), (Unit("a", fixed=True),)))


@given(cluster=clusters(), budget=st.integers(0, 3))
@examples(100)
def test_a_budget_bounds_the_moves_and_the_rest_waits(cluster: Cluster, budget: int) -> None:
    found, without = plan(cluster, Policy(budget=budget)), plan(cluster)
    assert len(found.moves) <= budget
    assert len(found.moves) + found.waiting == len(without.moves) + without.waiting


def test_hosts_that_join_get_their_share_in_the_fewest_moves() -> None:
    for used, moves in (((4, 3, 3, 0, 0), 4), ((5, 4, 1, 0, 0), 5)):
        cluster = slots(*used)
        found = plan(cluster)
        assert list(slots_used(cluster, found.result(cluster)).values()) == [2] * 5
        assert (len(found.moves), found.starts) == (moves, [])


def test_an_even_cluster_stays_as_it_is() -> None:
    assert plan(slots(2, 2, 2)) == Plan()
    nearly = Cluster(
        (HostSlots("a", 4, 1.0), HostSlots("b", 4, 1.0)),
        (Unit("u1", load=1.1), Unit("u2", load=0.9), Unit("u3", load=0.01)),
        {"u1": "a", "u2": "b", "u3": "a"},
    )
    assert load_spread(nearly, nearly.placed) > 0.02
    assert plan(nearly) == Plan(), "it is within 15 % of the mean"


def test_loads_and_speeds_decide_where_they_are_known() -> None:
    cluster = Cluster(
        (HostSlots("fast", 8, 2.0), HostSlots("slow", 8, 1.0)),
        tuple(Unit(f"u{n}", load=1.0) for n in range(6)),
    )
    placed = plan(cluster).result(cluster)
    assert [*placed.values()].count("fast") == 4
    assert shares(cluster, placed) == {"fast": pytest.approx(1.0), "slow": pytest.approx(1.0)}


def test_a_heavy_unit_does_not_hide_that_the_others_are_uneven() -> None:
    hosts = tuple(HostSlots(f"h{n}", 8, 1.0) for n in range(3))
    units = (Unit("giant", load=100.0), *(Unit(f"u{n}", load=1.0) for n in range(8)))
    cluster = Cluster(hosts, units, {"giant": "h0", **{f"u{n}": "h1" for n in range(8)}})
    placed = plan(cluster).result(cluster)
    assert [[*placed.values()].count(f"h{n}") for n in range(3)] == [1, 4, 4]


def test_the_units_of_a_host_that_is_gone_start_elsewhere_and_nothing_else_moves() -> None:
    cluster = Cluster(
        (HostSlots("a", 4), HostSlots("b", 4)),
        (Unit("c1", group="c"), Unit("c2", group="c"), Unit("d1"), Unit("d2")),
        {"c1": "a", "c2": "dead", "d1": "a", "d2": "b"},
    )
    found = plan(cluster)
    assert [(move.unit, move.target, move.why) for move in found.starts] == [
        ("c2", "b", "its host dead is gone")
    ]
    assert found.moves == []


def test_two_of_a_group_on_one_host_are_parted_and_without_another_host_one_waits() -> None:
    pair = (Unit("c1", group="c"), Unit("c2", group="c"))
    both = Cluster((HostSlots("a", 4), HostSlots("b", 4)), pair, {"c1": "a", "c2": "a"})
    found = plan(both)
    assert [(move.unit, move.why) for move in found.moves] == [("c2", "a has another of group c")]
    assert colocations(both, found.result(both)) == 0
    alone = Cluster((HostSlots("a", 4),), pair, {})
    (unplaced,) = plan(alone).unplaced
    assert unplaced.unit == "c2"
    assert "another of group c" in unplaced.why


def test_an_application_is_spread_where_loads_do_not_decide() -> None:
    units = tuple(Unit(f"{name}{n}", application=name) for name in ("x", "y") for n in range(3))
    cluster = Cluster(tuple(HostSlots(f"h{n}", 8) for n in range(3)), units)
    placed = plan(cluster).result(cluster)
    for name in ("x", "y"):
        assert len({placed[f"{name}{n}"] for n in range(3)}) == 3


def test_a_cluster_that_contradicts_itself_is_refused_with_every_problem() -> None:
    wrong = Cluster((HostSlots("a", 0), HostSlots("a", 1, -1.0)), (Unit("u", 0, float("nan")),))
    with pytest.raises(ClusterRefused) as refused:
        plan(wrong)
    text = str(refused.value)
    for part in ("host a: the name is given 2 times", "slots is 0", "speed is -1.0", "load is nan"):
        assert part in text
    assert plan(Cluster((), (Unit("u"),))).unplaced[0].why == "there is no host: describe one"
