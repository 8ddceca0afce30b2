"""Each step moves or swaps a unit of the busiest host, and leaves both hosts less busy than it was."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given

from sluice.placement import greedy
from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.board import NOWHERE, PlacementBoard, PlacementInput
from tests.examples import examples
from tests.placement.clusters import full


def board(cluster: Cluster) -> PlacementBoard:
    numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
    at = [numbers.get(cluster.placed.get(unit.name, ""), NOWHERE) for unit in cluster.units]
    return PlacementBoard(PlacementInput.of(cluster), np.array(at, np.int64))


def lowered(start: PlacementBoard, near: float = 0.0) -> list[greedy.Action]:
    return greedy.lowered(start, np.ones(len(start.host), np.bool_), start.floor, near)


@given(cluster=full())
@examples(100)
def test_each_step_is_possible_and_begins_at_the_busiest_host(cluster: Cluster) -> None:
    assume(cluster.units)
    now = board(cluster)
    moved: list[int] = []
    for action in lowered(now):
        source, busiest = int(now.busy.argmax()), now.busiest
        assert source in {int(now.host[unit]) for unit, _ in action}
        touched = {source, *(host for _, host in action)}
        for unit, host in action:
            assert now.may(unit)[host]
            now.give(unit, host)
            moved.append(unit)
        assert max(now.busy[host] for host in touched) < busiest
    assert len(moved) == len(set(moved))


def test_it_swaps_where_no_move_helps() -> None:
    units = tuple(Unit(f"u{n}", load=load) for n, load in enumerate((5.0, 4.0, 3.0, 4.0)))
    cluster = Cluster(
        (HostSlots("h1", 3), HostSlots("h2", 3)),
        units,
        dict(zip(("u0", "u1", "u2", "u3"), ("h1", "h1", "h2", "h2"), strict=True)),
    )
    ((first, second),) = lowered(board(cluster))
    assert {first, second} in ({(0, 1), (3, 0)}, {(1, 1), (2, 0)})


def test_the_last_steps_are_left_out_where_they_change_little() -> None:
    units = (*(Unit(f"u{n}", load=10.0) for n in range(4)), Unit("v0", load=0.1), Unit("v1", load=0.1))
    start = board(
        Cluster((HostSlots("h1", 9), HostSlots("h2", 9)), units, {unit.name: "h1" for unit in units})
    )
    assert len(lowered(start)) == 3
    assert len(lowered(start, near=0.02)) == 2


def test_a_unit_goes_where_it_leaves_loads_most_even_and_none_where_it_does_not_fit() -> None:
    hosts = (HostSlots("fast", 2, 2.0), HostSlots("slow", 1, 1.0))
    units = (Unit("a", load=3.0), Unit("b", load=2.0), Unit("c", load=1.0), Unit("d", load=1.0))
    start = board(Cluster(hosts, units, {}))
    assert greedy.placed(start, [0, 1, 2, 3]).host.tolist() == [0, 1, 0, NOWHERE]
