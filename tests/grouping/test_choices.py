"""D-Choices and W-Choices, and how they treat the head of a stream: `d_choices`, `w_choices` and `head`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping import strategy
from sluice.grouping.base import ParameterOutOfBounds, Targets, WorkerCluster
from sluice.grouping.imbalance import imbalance, loads, replicas
from sluice.grouping.routing import LoopRouter
from sluice.runtime.arrays import Hashes
from tests.examples import examples
from tests.grouping import plain

HALF_LIFE = 1_000
SLOW: dict[str, type[plain.WChoices]] = {"w-choices": plain.WChoices, "d-choices": plain.DChoices}
both = pytest.mark.parametrize("name", SLOW)


def skewed(tuples: int, skew: float = 1.4, seed: int = 0) -> Hashes:
    keys = np.minimum(np.random.default_rng(seed).zipf(skew, tuples), 1 << 40)
    return keys.astype(np.uint64)


def routed(name: str, keys: Hashes, workers: int, **parameters: Any) -> Targets:
    return strategy(name, **parameters).router(WorkerCluster.alike(workers)).route(keys)


@pytest.mark.slow
@both
@pytest.mark.parametrize(
    ("workers", "source", "parameters"),
    [
        (1, 0, {}),
        (2, 1, {"theta": 2.0, "counters": 1}),
        (5, 7, {"theta": 0.5, "counters": 3}),
        (30, 0, {"counters": 6}),
        (12, 3, {"counters": 8, "half_life": HALF_LIFE}),
    ],
)
@pytest.mark.parametrize("skew", [1.1, 1.6, 3.0])
def test_it_equals_its_plain_version(
    name: str, workers: int, source: int, parameters: dict[str, Any], skew: float
) -> None:
    class Slow(SLOW[name]):  # type: ignore[name-defined,misc]
        pass

    if name == "d-choices":
        parameters = {**parameters, "solve_every": 300, "epsilon": 1e-3}
    for parameter, value in parameters.items():
        assert hasattr(Slow, parameter)
        setattr(Slow, parameter, value)
    keys = skewed(2_600, skew)
    router = strategy(name, **parameters).router(WorkerCluster.alike(workers), source=source, seed=4)
    assert router.route(keys).tolist() == Slow([1.0] * workers, source, 4).route(keys.tolist())


@both
def test_it_balances_what_two_choices_cannot(name: str) -> None:
    keys, cluster = skewed(200_000), WorkerCluster.alike(64)
    assert imbalance(loads(routed("pkg", keys, 64), cluster)).relative > 5
    assert imbalance(loads(routed(name, keys, 64), cluster)).relative < 0.02


@pytest.mark.slow
def test_d_choices_needs_fewer_replicas_than_w_choices() -> None:
    keys = skewed(200_000, skew=1.2)
    fewer, more = (replicas(keys, routed(name, keys, 64)) for name in ("d-choices", "w-choices"))
    assert 0.01 < fewer - 1 < 0.8 * (more - 1)


@both
def test_a_key_of_the_tail_has_two_workers(name: str) -> None:
    """400 keys of equal share, 0.16/W; left out is the beginning, where all look frequent."""
    keys = np.tile(np.arange(400, dtype=np.uint64), 50)
    targets = routed(name, keys, 64)
    for key in range(400):
        assert set(targets[4_000:][keys[4_000:] == key].tolist()) <= set(plain.candidates(key, 2, 64, 0))


def test_a_key_of_the_head_has_every_worker() -> None:
    keys = np.zeros(6_400, np.uint64)
    assert np.bincount(routed("w-choices", keys, 64)).tolist() == [100] * 64


@both
def test_a_theta_finer_than_the_summary_is_refused(name: str) -> None:
    with pytest.raises(ParameterOutOfBounds, match=r"theta is 0.2; it must be above 1/counters = 0.2"):
        strategy(name, theta=0.2, counters=5)
    strategy(name, theta=0.2, counters=6)


@both
def test_a_half_life_in_which_a_single_tuple_makes_a_head_is_refused(name: str) -> None:
    with pytest.raises(ParameterOutOfBounds, match="half_life is 320; it must be above W/theta = 320"):
        strategy(name, half_life=320).router(WorkerCluster.alike(64))
    strategy(name, half_life=321).router(WorkerCluster.alike(64))


@both
@pytest.mark.parametrize(
    "wrong",
    [{"theta": 0.1}, {"theta": 2.1}, {"theta": float("nan")}, {"counters": 1_001}, {"half_life": 0}],
)
def test_parameters_out_of_bounds_are_refused(name: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterOutOfBounds, match=f"grouping {name}: {next(iter(wrong))} is"):
        strategy(name, **wrong)


@pytest.mark.parametrize("wrong", [{"epsilon": 0}, {"epsilon": 2}, {"solve_every": 0}])
def test_parameters_of_d_choices_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterOutOfBounds, match=f"{next(iter(wrong))} is"):
        strategy("d-choices", **wrong)


@both
def test_yesterdays_head_is_forgotten(name: str) -> None:
    """A key has all tuples, then 1 in 1,000: a half-life brings it back to its two workers."""
    old = np.zeros(50_000, np.uint64)
    new = np.arange(50_000, dtype=np.uint64) + 1
    new[::1_000] = 0
    for half_life, kept in ((2_000, True), (1 << 40, False)):
        router = strategy(name, half_life=half_life).router(WorkerCluster.alike(64))
        router.route(old)
        after = router.route(new)[new == 0][25:]
        assert (len(set(after.tolist())) <= 2) is kept


@examples(60)
@given(st.lists(st.integers(1, 400), min_size=1, max_size=12), st.integers(2, 80), st.floats(1e-6, 0.1))
def test_d_is_the_least_that_meets_every_constraint(counts: list[int], workers: int, epsilon: float) -> None:
    """d is solved again at every tuple because `solve_every` is 1."""
    keys = np.repeat(np.arange(len(counts), dtype=np.uint64), counts)
    rare = np.arange(1_000, 1_000 + len(keys), dtype=np.uint64)
    keys = np.concatenate([rare, keys])
    router = strategy("d-choices", epsilon=epsilon, solve_every=1).router(WorkerCluster.alike(workers))
    assert isinstance(router, LoopRouter)
    router.route(keys)
    summary = router.state.head.summary
    shares = [n / len(keys) for n in summary.counts[::-1].tolist() if n >= 0.2 / workers * len(keys)]
    assert router.state.d[0] == plain.fewest_choices(shares, workers, epsilon)


def test_a_hotter_key_needs_more_choices() -> None:
    """It gets at least its share of the workers, and all of them from some share on."""
    found = []
    for share in (0.05, 0.1, 0.3, 0.9):
        keys = np.arange(20_000, dtype=np.uint64) + 1
        keys[: int(share * 20_000)] = 0
        router = strategy("d-choices", solve_every=1).router(WorkerCluster.alike(50))
        assert isinstance(router, LoopRouter)
        router.route(np.random.default_rng(0).permutation(keys))
        found.append(int(router.state.d[0]))
        assert found[-1] >= share * 50
    assert found == sorted(found)
    assert found[0] < 10
    assert found[-1] == 50
