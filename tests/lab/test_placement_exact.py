"""The exact search against every possible placement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.placement.base import Cluster
from sluice.placement.measures import moves, shares
from sluice.placement.usage import low_usage_first
from sluice_lab.placement.exact import ExactSearch
from sluice_lab.placement.inputs import random_inputs
from sluice_lab.placement.optimum import least_busiest
from tests.examples import examples
from tests.placement.clusters import everywhere, full

ROUNDING = 1e-6


def placed(cluster: Cluster, hosts: np.ndarray) -> dict[str, str]:
    return {unit.name: cluster.hosts[host].name for unit, host in zip(cluster.units, hosts, strict=True)}


@pytest.mark.slow
@given(cluster=full())
@examples(60)
def test_no_placement_is_less_busy_than_the_lowest(cluster: Cluster) -> None:
    if not cluster.units:
        return
    best = min(max(shares(cluster, each).values()) for each in everywhere(cluster))
    assert best - ROUNDING <= ExactSearch.of(cluster, cluster.placed).lowest() <= best * 1.003


@given(cluster=full(), data=st.data())
@examples(60)
def test_no_other_way_within_the_limits_has_fewer_moves(cluster: Cluster, data: st.DataObject) -> None:
    if not cluster.units:
        return
    wanted = shares(cluster, data.draw(st.sampled_from(list(everywhere(cluster)))))
    most, least = max(wanted.values()), min(wanted.values())
    exact = ExactSearch.of(cluster, cluster.placed)
    hosts = exact.fewest(np.full(len(wanted), most), np.full(len(wanted), least))
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


@pytest.mark.slow
def test_it_finds_what_an_integer_program_finds() -> None:
    for each in [each for each in random_inputs(12) if len(each.first.units) <= 7][:3]:
        placed = low_usage_first(each.first)
        best = least_busiest(each.first)
        assert best is not None
        assert ExactSearch.of(each.first, placed).lowest() == pytest.approx(best, rel=4e-3)
