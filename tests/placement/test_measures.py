"""The lower bound is below every placement, and is reached where each of its reasons decides."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.measures import least_spread, load_spread
from tests.examples import examples
from tests.placement.clusters import everywhere, full


def least(cluster: Cluster) -> float:
    return min(load_spread(cluster, each) for each in everywhere(cluster))


@given(cluster=full())
@examples(100)
def test_no_placement_is_more_even_than_the_bound(cluster: Cluster) -> None:
    assume(cluster.units)
    assert least_spread(cluster) <= least(cluster) + 1e-9


@pytest.mark.parametrize(
    ("speeds", "loads"),
    [
        ((1.0, 1.0), (1.0, 1.0)),  # all on all hosts
        ((2.0, 1.0, 1.0), (8.0, 1.0)),  # the heaviest on the fastest
        ((2.0, 2.0, 1.0, 1.0), (4.0, 4.0, 0.1)),  # the two heaviest on the two fastest
        ((1.0, 1.0), (2.0, 2.0, 2.0)),  # two share a host
    ],
)
def test_the_bound_is_reached(speeds: tuple[float, ...], loads: tuple[float, ...]) -> None:
    hosts = tuple(HostSlots(f"h{n}", 4, speed) for n, speed in enumerate(speeds))
    cluster = Cluster(hosts, tuple(Unit(f"u{n}", load=load) for n, load in enumerate(loads)))
    assert least_spread(cluster) == pytest.approx(least(cluster), abs=1e-5)


def test_without_units_nothing_is_uneven() -> None:
    assert least_spread(Cluster((HostSlots("h1", 1),), ())) == 0.0
