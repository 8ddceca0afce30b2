"""Planned grouping against its plain version, and its guarantees; its loop is `planned_loop`."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, ParameterOutOfBounds, Targets, WorkerCluster
from sluice.grouping.imbalance import imbalance, loads, makespan, replicas
from sluice.grouping.planned import Planned, PlannedRouter
from sluice.runtime.arrays import Hashes
from tests.examples import examples
from tests.grouping.plain_planned import PlainPlanned

#: Only the plan decides; nothing is corrected.
ALONE = Planned(tolerance=1_000_000)


def zipf(tuples: int, seed: int, z: float = 1.1, keys: int = 3_000) -> Hashes:
    weights = np.arange(1.0, keys + 1) ** -z
    ranks = np.random.default_rng(seed).choice(keys, tuples, p=weights / weights.sum())
    return ranks.astype(np.uint64)


def with_hot(key: int, share: float, keys: Hashes, seed: int = 0) -> Hashes:
    """`keys` with about a `share` of them replaced by one key."""
    taken = np.random.default_rng([seed, 1]).random(len(keys)) < share
    return np.where(taken, np.uint64(key), keys)


def after(
    batch: Hashes, cluster: WorkerCluster, strategy: Planned | None = None, sources: int = 1
) -> list[PlannedRouter]:
    """Routers that have planned after one batch."""
    strategy = strategy or Planned()
    routers = [strategy.router(cluster, source=source) for source in range(sources)]
    strategy.boundary(routers, cluster, Counts.of(batch))
    return routers


def routed(routers: list[PlannedRouter], keys: Hashes) -> Targets:
    targets = np.empty(len(keys), np.int32)
    for source, router in enumerate(routers):
        targets[source :: len(routers)] = router.route(keys[source :: len(routers)])
    return targets


@pytest.mark.slow
@examples(25)
@given(
    times=st.lists(st.sampled_from([1.0, 1.0, 2.0, 3.5]), min_size=1, max_size=24).map(tuple),
    sources=st.integers(1, 3),
    seed=st.integers(0, (1 << 64) - 1),
    stream=st.integers(0, 1000),
    hot=st.sampled_from([0.0, 0.3, 0.9]),
    strategy=st.builds(
        Planned,
        buckets=st.sampled_from([64, 200]),
        grain=st.sampled_from([1 / 16, 0.5]),
        half_life=st.sampled_from([0.5, 1.0]),
        tolerance=st.sampled_from([0.1, 0.6, 1e6]),
        patience=st.sampled_from([0.0, 1.5]),
        alarm=st.sampled_from([1.0, 4.0]),
        counters=st.just(16),
    ),
)
def test_it_routes_as_the_plain_version(
    *, times: tuple[float, ...], sources: int, seed: int, stream: int, hot: float, strategy: Planned
) -> None:
    cluster = WorkerCluster(times)
    routers = [strategy.router(cluster, source=source, seed=seed) for source in range(sources)]
    slow = [PlainPlanned(strategy, cluster, source=source, seed=seed) for source in range(sources)]
    for batch in range(3):
        keys = with_hot(1 << 40 | batch // 2, hot, zipf(600, stream + batch, keys=200))
        for source, (router, plain) in enumerate(zip(routers, slow, strict=True)):
            mine = keys[source::sources]
            assert router.route(mine).tolist() == [plain.route(int(key)) for key in mine]
        strategy.boundary(routers, cluster, Counts.of(keys))
        for plain in slow:
            plain.boundary(cluster, Counter(keys.tolist()), sources)


def test_a_key_that_outgrows_a_worker_is_split_in_exact_fractions() -> None:
    cluster = WorkerCluster((1.0, 2.0, 1.0, 4.0, 1.0, 1.0))
    keys = with_hot(7 << 50, 0.6, zipf(20_000, 1))
    (router,) = after(keys, cluster, ALONE)
    assert router.plan.keys[0] == 7 << 50
    workers = router.plan.candidates(0)
    assert 1 < len(workers) < 6
    targets = router.route(np.full(50_000, 7 << 50, np.uint64))
    sizes = np.diff(np.append(0.0, router.plan.upto[: len(workers)].astype(np.float64))) / 2.0**64
    counts = np.bincount(targets, minlength=6)[workers]
    # Within five tuples; random choices would miss by about 100.
    assert np.abs(counts - 50_000 * sizes).max() < 5


def test_a_steady_stream_is_balanced_at_the_memory_of_key_grouping() -> None:
    cluster = WorkerCluster.alike(16)
    (router,) = after(zipf(200_000, 1), cluster)
    keys = zipf(200_000, 2)
    targets = router.route(keys)
    assert imbalance(loads(targets, cluster)).relative < 0.01
    assert replicas(keys, targets) < 1.05


def test_the_plan_alone_leaves_only_the_imbalance_of_chance() -> None:
    """Its counts and the batch's are each off by sqrt(n); 1 % of keys have a second worker."""
    cluster = WorkerCluster.alike(16)
    keys = zipf(200_000, 2)
    targets = after(zipf(200_000, 1), cluster, ALONE)[0].route(keys)
    chance = np.sqrt(2 / (len(keys) / 16))
    assert 0.001 < imbalance(loads(targets, cluster)).relative < 4 * chance
    assert replicas(keys, targets) < 1.01


@pytest.mark.slow
def test_less_tolerance_balances_better_and_costs_replicas() -> None:
    cluster, keys = WorkerCluster.alike(16), zipf(200_000, 2)
    found = []
    for tolerance in (1e6, 1.0, 0.4):
        targets = after(zipf(200_000, 1), cluster, Planned(tolerance=tolerance, patience=0))[0].route(keys)
        found.append((imbalance(loads(targets, cluster)).relative, replicas(keys, targets)))
    imbalances, costs = zip(*found, strict=True)
    assert list(imbalances) == sorted(set(imbalances), reverse=True)
    assert list(costs) == sorted(set(costs))


@pytest.mark.slow
def test_patience_saves_replicas() -> None:
    cluster, keys = WorkerCluster.alike(64), zipf(200_000, 2, z=0.8)
    costs = []
    for patience in (0.0, 1.5):
        routers = after(zipf(200_000, 1, z=0.8), cluster, Planned(patience=patience))
        costs.append(replicas(keys, routed(routers, keys)))
    assert costs[1] < costs[0]


def test_unequal_workers_are_through_at_the_same_time() -> None:
    cluster = WorkerCluster(tuple(np.linspace(1, 4, 16).tolist()))
    (router,) = after(with_hot(9 << 40, 0.3, zipf(200_000, 1)), cluster)
    assert makespan(router.route(with_hot(9 << 40, 0.3, zipf(200_000, 2), 1)), cluster) < 1.02


def test_shares_follow_the_times_that_were_measured_last() -> None:
    strategy, alike = Planned(), WorkerCluster.alike(8)
    router = strategy.router(alike)
    batch = zipf(50_000, 1)
    strategy.boundary([router], alike, Counts.of(batch))
    slow = WorkerCluster((4.0, *[1.0] * 7))
    strategy.boundary([router], slow, Counts.of(batch))
    counts = np.bincount(router.route(zipf(50_000, 2)), minlength=8)
    assert counts[0] / counts.sum() == pytest.approx(slow.shares[0], rel=0.05)


@pytest.mark.parametrize("sources", [1, 4])
def test_a_key_that_turns_hot_in_a_batch_leaves_its_worker(sources: int) -> None:
    cluster = WorkerCluster.alike(16)
    late = zipf(100_000, 2)
    late[50_000:] = with_hot(5 << 33, 0.5, late[50_000:])
    alone = routed(after(zipf(100_000, 1), cluster, ALONE, sources), late)
    targets = routed(after(zipf(100_000, 1), cluster, sources=sources), late)
    assert imbalance(loads(alone, cluster)).relative > 3
    assert imbalance(loads(targets, cluster)).relative < 0.1
    # All other keys stay: the replicas are those of one key and those that chance costs.
    assert replicas(late, targets) < 1.1


def test_a_listed_key_that_grows_is_caught_as_well() -> None:
    """It had its worker and was not loose: other keys of the worker were."""
    cluster = WorkerCluster.alike(4)
    routers = after(with_hot(3 << 35, 0.02, zipf(100_000, 1)), cluster)
    number = routers[0].plan.keys.tolist().index(3 << 35)
    assert not routers[0].plan.loose[number]
    targets = routed(routers, with_hot(3 << 35, 0.6, zipf(100_000, 2)))
    assert imbalance(loads(targets, cluster)).relative < 0.05


def test_the_first_batch_has_no_plan_but_its_hot_keys_are_caught() -> None:
    cluster = WorkerCluster.alike(16)
    keys = with_hot(5 << 33, 0.4, zipf(100_000, 1))
    key_grouping = np.bincount(ALONE.router(cluster).route(keys), minlength=16).astype(float)
    planned = np.bincount(Planned().router(cluster).route(keys), minlength=16).astype(float)
    assert imbalance(key_grouping).relative > 5
    assert imbalance(planned).relative < 0.1


@pytest.mark.slow
def test_a_batch_that_is_shorter_or_longer_than_expected_is_balanced_too() -> None:
    cluster = WorkerCluster.alike(16)
    for tuples in (20_000, 800_000):
        targets = after(zipf(200_000, 1), cluster)[0].route(zipf(tuples, 2))
        assert imbalance(loads(targets, cluster)).relative < 3 * np.sqrt(16 / min(tuples, 200_000))


def test_a_hot_key_that_is_gone_is_forgotten() -> None:
    strategy, cluster = Planned(half_life=1.0), WorkerCluster.alike(16)
    (router,) = after(with_hot(5 << 33, 0.4, zipf(20_000, 1)), cluster, strategy)
    assert len(router.plan.candidates(0)) > 1
    weights = []
    while 5 << 33 in router.plan.keys:
        weights.append(float(router.plan.weights[router.plan.keys.tolist().index(5 << 33)]))
        strategy.boundary([router], cluster, Counts.of(zipf(20_000, 2 + len(weights))))
    # After a half-life of one batch, with batches of equal size: 1/3, 1/7, 1/15 of its first weight.
    assert weights[1] / weights[0] == pytest.approx(1 / 3)
    assert weights[2] / weights[0] == pytest.approx(1 / 7)
    assert 5 <= len(weights) <= 8


@pytest.mark.slow
def test_sources_that_divert_a_key_choose_the_same_workers() -> None:
    """If each of 16 sources chose 16 workers itself, nearly every such key would be on all 64."""
    cluster = WorkerCluster.alike(64)
    routers = after(zipf(400_000, 1), cluster, sources=16)
    keys = zipf(400_000, 2)
    targets = routed(routers, keys)
    assert replicas(keys, targets) < 1.3
    assert imbalance(loads(targets, cluster)).relative < 0.1


def test_all_sources_share_a_plan_and_begin_a_keys_sequence_at_different_places() -> None:
    routers = after(with_hot(5 << 33, 0.5, zipf(10_000, 1)), WorkerCluster.alike(8), sources=4)
    assert len({id(router.plan) for router in routers}) == 1
    assert len({int(router.state.positions[0]) for router in routers}) == 4
    assert {router.state.expected for router in routers} == {2_500.0}


def test_no_sources_need_no_plan() -> None:
    Planned().boundary([], WorkerCluster.alike(8), Counts.of(zipf(10, 1)))


@pytest.mark.slow
def test_a_plan_stays_small_however_many_keys_there_are() -> None:
    strategy, cluster = Planned(room=1024), WorkerCluster.alike(64)
    sizes = []
    for keys in (5_000, 1_000_000):
        (router,) = after(zipf(1_000_000, 1, z=0.9, keys=keys), cluster, strategy)
        assert len(router.past.keys) <= 1024
        assert len(router.plan.keys) <= 64 / strategy.grain
        sizes.append(router.nbytes)
    assert max(sizes) < 300_000


def test_a_router_can_be_sent_to_where_the_source_is() -> None:
    (router,) = after(zipf(10_000, 1), WorkerCluster.alike(8))
    sent = pickle.loads(pickle.dumps(router))  # noqa: S301 - our own
    assert sent.route(zipf(10_000, 2)).tolist() == router.route(zipf(10_000, 2)).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("buckets", 63), ("grain", 1.5), ("room", 10), ("half_life", 0.0), ("tolerance", 0.0),
        ("patience", -0.1), ("alarm", float("nan")), ("counters", 15),
    ],
)  # fmt: skip
def test_a_parameter_out_of_bounds_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ParameterOutOfBounds, match=f"planned: {name}"):
        Planned(**{name: value})
