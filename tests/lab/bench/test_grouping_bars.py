"""The bars of grouping: what they count; bars that a small batch does not upset must hold."""

from __future__ import annotations

import numpy as np
import pytest

from sluice.grouping.base import Counts, WorkerCluster
from sluice.grouping.planned import Planned
from sluice_lab.bench import grouping_bars
from sluice_lab.bench.outcome import Bar, Outcome

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return grouping_bars.run(quick=True)


@pytest.fixture(scope="module")
def quick(outcome: Outcome) -> list[Bar]:
    return list(outcome.bars)


def test_every_bar_has_a_name_of_its_own_and_a_figure(quick: list[Bar]) -> None:
    # Three streams, two clusters, two settings, two figures; a hot key that moves; makespans; six costs.
    assert len({bar.bar for bar in quick}) == len(quick) == 24 + 3 + 3 + 6
    assert all(np.isfinite(bar.figure) and bar.figure >= 0 and bar.at == "most" for bar in quick)


def test_a_hot_key_that_moves_and_unequal_workers_need_no_large_batch(quick: list[Bar]) -> None:
    named = [bar for bar in quick if "moves" in bar.bar or "makespan" in bar.bar]
    assert len(named) == 5
    assert [bar.line() for bar in named if not bar.holds] == []


def test_replicas_hold_for_64_workers_in_a_small_batch_too(quick: list[Bar]) -> None:
    named = [bar for bar in quick if "64 workers" in bar.bar and "replicas" in bar.bar]
    assert len(named) == 6
    assert [bar.line() for bar in named if not bar.holds] == []


def test_the_bound_is_between_the_plan_and_its_correction(outcome: Outcome) -> None:
    (table,) = outcome.tables
    for _, _, planned, least, corrected, _ in table.rows:
        assert 0 <= planned <= least <= corrected  # type: ignore[operator]


def test_each_overloaded_group_of_workers_costs_at_least_a_replica() -> None:
    """Key 1 fills two and a half of four workers, 11 one, and 12 the rest; then 11 doubles."""
    before = np.repeat(np.array([1, 11, 12], np.uint64), [500, 200, 100])
    rule, cluster = Planned(tolerance=1_000_000, buckets=64), WorkerCluster.alike(4)
    router = rule.router(cluster)
    rule.boundary([router], cluster, Counts.of(before))
    same, doubled = before, np.append(before, np.full(200, 11, np.uint64))
    for keys, over in ((same, 0), (doubled, 1)):
        targets = router.route(keys)
        least = grouping_bars.least_replicas(router, keys, targets, 0.05)
        assert least == pytest.approx((3 + 2 + over) / 3)
