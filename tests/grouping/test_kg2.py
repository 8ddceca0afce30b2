"""KG2 against its plain version, and what paper 000 says of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import ParameterOutOfBounds, Router, WorkerCluster
from sluice.grouping.imbalance import imbalance, loads
from sluice.grouping.kg2 import KG2
from tests.examples import examples
from tests.grouping import plain_papers as plain
from tests.grouping.paper_streams import cold_with, skewed, workers_of


def router(workers: int, strategy: KG2 | None = None) -> Router:
    return (strategy or KG2()).router(WorkerCluster.alike(workers))


@examples(30)
@given(
    workers=st.integers(1, 70),
    seed=st.integers(0, 1 << 60),
    support=st.sampled_from([0.01, 0.05, 0.4]),
    precision=st.sampled_from([2, 10]),
    part=st.sampled_from([1, 2, 5, 64]),
    stream=st.integers(0, 1000),
)
def test_it_routes_as_the_plain_version(
    *, workers: int, seed: int, support: float, precision: int, part: int, stream: int
) -> None:
    keys = skewed(600, stream)
    error = support / precision
    kernel = KG2(support=support, error=error, part=part).router(WorkerCluster.alike(workers), seed=seed)
    slow = plain.KG2(workers, seed, support, error, part)
    assert kernel.route(keys).tolist() == [slow.route(int(key)) for key in keys]


@pytest.mark.parametrize(
    ("workers", "candidates"), [(1, 1), (2, 2), (5, 2), (10, 2), (11, 3), (35, 7), (64, 13), (1000, 200)]
)
def test_a_hot_key_has_a_fifth_of_the_workers_rounded_up_and_two_at_least(
    workers: int, candidates: int
) -> None:
    keys = cold_with({7: 0.3}, 20_000)
    assert len(workers_of(7, keys, router(workers).route(keys))) == candidates


@pytest.mark.slow
def test_a_cold_key_has_two_workers() -> None:
    """Except in Lossy Counting's first bucket, where a single tuple is a large share."""
    keys = cold_with({7: 0.03}, 20_000)
    kg2 = router(64)
    kg2.route(keys)
    targets = kg2.route(keys)
    assert all(len(workers_of(key, keys, targets)) <= 2 for key in np.unique(keys).tolist())


def test_a_hot_key_keeps_the_two_workers_it_had_while_it_was_cold() -> None:
    kg2 = router(64)
    kg2.route(cold_with({}, 4_000))
    few = cold_with({7: 0.02}, 2_000)
    before = workers_of(7, few, kg2.route(few))
    many = cold_with({7: 0.5}, 20_000)
    after = workers_of(7, many, kg2.route(many))
    assert len(before) == 2
    assert before < after


def test_a_key_below_the_support_bounds_the_balance_and_a_support_by_workers_fixes_it() -> None:
    keys = cold_with({7: 0.04}, 64_000)
    cluster = WorkerCluster.alike(64)
    as_published = KG2().router(cluster).route(keys)
    by_workers = KG2(support=1 / 320, error=1 / 3200).router(cluster).route(keys)
    assert (
        imbalance(loads(as_published, cluster)).relative > 0.2
    )  # 4 % on two of 64 workers is 1.28 shares each
    assert imbalance(loads(by_workers, cluster)).relative < 0.02


def test_a_key_that_was_hot_stays_so_unless_a_half_life_is_given() -> None:
    past, now = cold_with({7: 0.9}, 20_000), cold_with({7: 0.02}, 40_000)
    forever, forgets = router(64), router(64, KG2(half_life=4_000))
    spread = []
    for kg2 in (forever, forgets):
        kg2.route(past)
        kg2.route(now)
        spread.append(len(workers_of(7, now, kg2.route(now))))
    assert spread == [13, 2]


@pytest.mark.parametrize(
    "parameters",
    [
        {"support": 0.0},
        {"support": 1.1},
        {"error": 0.0},
        {"error": 0.03},  # coarser than half the support
        {"support": 0.001},  # finer than the error
        {"part": 0},
        {"half_life": 0},
        {"support": float("nan")},
    ],
)
def test_parameters_out_of_bounds_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ParameterOutOfBounds, match="grouping kg2"):
        KG2(**parameters)  # type: ignore[arg-type]
