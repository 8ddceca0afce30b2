"""Branch and bound finds what single moves and swaps miss, in the fewest moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.placement import branch
from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.board import NOWHERE, Numbers, PlacementBoard, PlacementInput
from sluice.placement.measures import moves, shares
from sluice.placement.plan import DEFAULT, plan
from tests.examples import examples
from tests.placement.clusters import everywhere, full

#: How much less busy a busiest host must be to be better, and roundings.
CLOSE = 1.006


def board(cluster: Cluster) -> PlacementBoard:
    numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
    at = np.array([numbers[cluster.placed[unit.name]] for unit in cluster.units], np.int64)
    return PlacementBoard(PlacementInput.of(cluster), at)


def better(start: PlacementBoard, enough: float) -> PlacementBoard:
    return branch.better(start, start.host, np.ones(len(start.host), np.bool_), enough, lambda _: True)


def placed(cluster: Cluster, hosts: Numbers) -> dict[str, str]:
    return {unit.name: cluster.hosts[host].name for unit, host in zip(cluster.units, hosts, strict=True)}


@given(cluster=full())
@examples(60)
def test_no_placement_is_less_busy(cluster: Cluster) -> None:
    assume(cluster.units)
    start = board(cluster)
    found = better(start, start.floor)
    best = min(max(shares(cluster, each).values()) for each in everywhere(cluster))
    assert found.busiest / start.level <= best * CLOSE
    assert placed(cluster, found.host) in list(everywhere(cluster))


@given(cluster=full(), data=st.data())
@examples(60)
def test_no_other_way_to_what_is_enough_has_fewer_moves(cluster: Cluster, data: st.DataObject) -> None:
    assume(cluster.units)
    start = board(cluster)
    enough = max(shares(cluster, data.draw(st.sampled_from(list(everywhere(cluster))))).values()) * 1.001
    low = better(start, enough * start.level)
    assert low.busiest <= enough * start.level
    others = (
        moves(cluster.placed, each)
        for each in everywhere(cluster)
        if max(shares(cluster, each).values()) <= enough
    )
    assert moves(cluster.placed, placed(cluster, low.host)) == min(others)


def test_a_plan_finds_what_moves_and_swaps_of_the_busiest_host_do_not() -> None:
    """The heavy unit belongs on the fast host, which another of its group must leave before."""
    hosts = (HostSlots("h1", 4, 1.0), HostSlots("h2", 4, 2.0), HostSlots("h3", 4, 1.0))
    units = (Unit("heavy", load=4.0, group="g"), Unit("light", load=1.0, group="g"))
    cluster = Cluster(hosts, units, {"heavy": "h1", "light": "h2"})
    found = plan(cluster)
    assert [[(move.unit, move.target) for move in step] for step in found.steps] == [
        [("light", "h3")],
        [("heavy", "h2")],
    ]
    assert plan(cluster, replace(DEFAULT, small=0)).moves == []


def test_a_placement_to_which_units_cannot_get_is_not_taken() -> None:
    """Two of a group cannot change places."""
    hosts = (HostSlots("h1", 2, 3.0), HostSlots("h2", 2, 1.0))
    units = (Unit("a", load=1.0, group="g"), Unit("b", load=3.0, group="g"))
    cluster = Cluster(hosts, units, {"a": "h1", "b": "h2"})
    start = board(cluster)
    assert better(start, start.floor).busiest < start.busiest
    assert plan(cluster).moves == []


def test_units_that_do_not_run_stay_without_a_host() -> None:
    cluster = Cluster((HostSlots("h1", 4), HostSlots("h2", 4)), tuple(Unit(f"u{n}") for n in range(4)), {})
    start = PlacementBoard(PlacementInput.of(cluster), np.array([0, 0, NOWHERE, NOWHERE], np.int64))
    assert better(start, start.floor).host.tolist() == [0, 1, NOWHERE, NOWHERE]


def test_a_search_ends_with_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branch, "_BRANCHES", 0)
    cluster = Cluster(
        (HostSlots("h1", 4), HostSlots("h2", 4)), (Unit("a"), Unit("b")), {"a": "h1", "b": "h1"}
    )
    start = board(cluster)
    assert better(start, start.floor) is start
