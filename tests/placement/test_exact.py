"""The exact search against every possible placement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.placement.base import Cluster, Host, Unit
from sluice.placement.board import PlacementBoard, PlacementInput
from sluice.placement.exact import ExactSearch
from sluice.placement.measures import moves, shares
from sluice.placement.plan import plan
from tests.examples import examples

ROUNDING = 1e-6


@st.composite
def full(draw: st.DrawFn) -> Cluster:
    """A small cluster in which each unit has a host."""
    hosts = tuple(
        Host(f"h{n}", draw(st.integers(2, 4)), draw(st.sampled_from((1.0, 1.0, 2.0))))
        for n in range(draw(st.integers(1, 3)))
    )
    units = tuple(
        Unit(
            f"u{n}",
            draw(st.sampled_from((1, 1, 2))),
            draw(st.floats(0.1, 9)),
            draw(st.sampled_from((None, "g1"))),
        )
        for n in range(draw(st.integers(1, 5)))
    )
    possible = list(everywhere(Cluster(hosts, units)))
    if not possible:
        return Cluster(hosts, ())
    return Cluster(hosts, units, draw(st.sampled_from(possible)))


def everywhere(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Every placement that slots and groups allow."""
    for names in itertools.product([host.name for host in cluster.hosts], repeat=len(cluster.units)):
        pairs = list(zip(cluster.units, names, strict=True))
        fits = all(
            sum(unit.slots for unit, name in pairs if name == host.name) <= host.slots
            for host in cluster.hosts
        )
        groups = [(unit.group, name) for unit, name in pairs if unit.group]
        if fits and len(groups) == len(set(groups)):
            yield {unit.name: name for unit, name in pairs}


def search(cluster: Cluster) -> tuple[ExactSearch, PlacementBoard]:
    numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
    at = np.array([numbers[cluster.placed[unit.name]] for unit in cluster.units], np.int64)
    board = PlacementBoard(PlacementInput.of(cluster), at)
    return ExactSearch(board, np.ones(len(at), np.int64), np.ones(len(at), np.bool_), lambda _: []), board


def placed(cluster: Cluster, hosts: np.ndarray) -> dict[str, str]:
    return {unit.name: cluster.hosts[host].name for unit, host in zip(cluster.units, hosts, strict=True)}


@given(cluster=full())
@examples(60)
def test_no_placement_is_less_busy_than_the_lowest(cluster: Cluster) -> None:
    if not cluster.units:
        return
    exact, board = search(cluster)
    found = exact.lowest(board.floor, near=0.0)
    best = min(max(shares(cluster, each).values()) for each in everywhere(cluster))
    busiest = board.busiest if found is None else found.board.busiest
    assert busiest / board.level <= best * 1.003


@given(cluster=full(), data=st.data())
@examples(60)
def test_no_other_way_within_the_limits_has_fewer_moves(cluster: Cluster, data: st.DataObject) -> None:
    if not cluster.units:
        return
    exact, board = search(cluster)
    wanted = shares(cluster, data.draw(st.sampled_from(list(everywhere(cluster)))))
    most, least = max(wanted.values()), min(wanted.values())
    hosts = exact.fewest(np.full(len(wanted), most * board.level), np.full(len(wanted), least * board.level))
    assert hosts is not None
    after = placed(cluster, hosts)
    assert after in list(everywhere(cluster))
    busy = shares(cluster, after)
    assert max(busy.values()) <= most + ROUNDING
    assert min(busy.values()) >= least - ROUNDING
    others = (
        moves(cluster.placed, each)
        for each in everywhere(cluster)
        if max(shares(cluster, each).values()) <= most - ROUNDING
        and min(shares(cluster, each).values()) >= least + ROUNDING
    )
    assert moves(cluster.placed, after) <= min(others, default=len(cluster.units))


@pytest.mark.parametrize("loads", [(3.0, 3.0, 2.0, 2.0, 2.0)])
def test_a_plan_finds_what_single_moves_and_swaps_do_not(loads: tuple[float, ...]) -> None:
    """Two hosts are even only as 3 + 3 and 2 + 2 + 2."""
    units = tuple(Unit(f"u{n}", load=load) for n, load in enumerate(loads))
    cluster = Cluster((Host("h1", 8), Host("h2", 8)), units, {unit.name: "h1" for unit in units})
    after = plan(cluster).result(cluster)
    assert max(shares(cluster, after).values()) == pytest.approx(1.0)
    assert moves(cluster.placed, after) == 2
