"""DKG against its plain version, and what its mapping achieves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, ParameterOutOfBounds, Router, WorkerCluster
from sluice.grouping.dkg import DKG
from sluice.grouping.imbalance import imbalance, loads, replicas
from sluice.grouping.key import Key
from sluice.runtime.arrays import Hashes
from tests.examples import examples
from tests.grouping import plain_papers as plain
from tests.grouping.paper_streams import cold_with, skewed, workers_of


def learnt(strategy: DKG, cluster: WorkerCluster, keys: Hashes, sources: int = 1) -> list[Router]:
    """Routers that have learnt a batch, each from its own part."""
    routers = [strategy.router(cluster, source=source) for source in range(sources)]
    for source, router in enumerate(routers):
        router.route(keys[source::sources].copy())
    strategy.boundary(routers, cluster, Counts.of(keys))
    return routers


@examples(25)
@given(
    workers=st.integers(1, 20),
    sources=st.integers(1, 3),
    seed=st.integers(0, 1 << 60),
    theta=st.sampled_from([0.2, 1.0]),
    buckets=st.sampled_from([1, 4, 16]),
    once=st.booleans(),
    stream=st.integers(0, 1000),
)
def test_it_routes_as_the_plain_version(
    *, workers: int, sources: int, seed: int, theta: float, buckets: int, once: bool, stream: int
) -> None:
    strategy, cluster = DKG(theta=theta, buckets=buckets, once=once), WorkerCluster.alike(workers)
    routers = [strategy.router(cluster, source=source, seed=seed) for source in range(sources)]
    slow = [plain.DKG(workers, seed, 10, buckets) for _ in range(sources)]
    for number in range(3):
        keys = skewed(300, stream + number) + np.uint64(number)
        for source in range(sources):
            own = keys[source::sources].copy()
            assert routers[source].route(own).tolist() == [slow[source].route(int(key)) for key in own]
        strategy.boundary(routers, cluster, Counts.of(keys))
        plain.build(slow, workers, theta, once=once)


def test_it_is_key_grouping_until_it_has_learnt() -> None:
    keys, cluster = skewed(2_000, 1, keys=1_000), WorkerCluster.alike(13)
    untaught = DKG().router(cluster, seed=9).route(keys)
    assert (untaught == Key().router(cluster, seed=9).route(keys)).all()


def test_each_key_has_one_worker_whatever_the_source() -> None:
    keys = skewed(20_000, 1, keys=2_000)
    routers = learnt(DKG(), WorkerCluster.alike(20), keys, sources=3)
    first, *others = (router.route(keys) for router in routers)
    assert replicas(keys, first) == 1
    assert all((first == other).all() for other in others)


def test_no_worker_has_more_than_the_mean_and_the_largest_part() -> None:
    """Graham's bound of list scheduling (1969); every key has a counter, so counts are exact."""
    keys, cluster = skewed(20_000, 1, keys=300), WorkerCluster.alike(20)  # of 400 counters
    (router,) = learnt(DKG(counters=20), cluster, keys)
    load = loads(router.route(keys), cluster)
    assert load.max() <= load.mean() + Counts.of(keys).counts.max()


def test_hot_keys_that_share_a_hash_are_parted() -> None:
    cluster = WorkerCluster.alike(10)
    untaught = DKG().router(cluster)
    some = np.arange(100, dtype=np.uint64)
    targets = untaught.route(some)
    one, other = some[targets == 0][:2].tolist()
    keys = cold_with({one: 0.08, other: 0.08}, 20_000)
    (router,) = learnt(DKG(), cluster, keys)
    targets = router.route(keys)
    assert workers_of(one, keys, targets).isdisjoint(workers_of(other, keys, targets))
    assert imbalance(loads(targets, cluster)).relative < 0.05


def test_a_key_with_more_than_a_workers_share_bounds_the_balance() -> None:
    cluster = WorkerCluster.alike(10)
    keys = cold_with({7: 0.3}, 20_000)
    (router,) = learnt(DKG(), cluster, keys)
    assert imbalance(loads(router.route(keys), cluster)).relative == pytest.approx(2.0)


@pytest.mark.parametrize("once", [True, False])
def test_the_first_mapping_stays_unless_it_should_follow(once: bool) -> None:
    strategy, cluster = DKG(once=once), WorkerCluster.alike(10)
    before = cold_with(dict.fromkeys(range(10), 0.09), 20_000)
    after = cold_with(dict.fromkeys(range(20, 30), 0.09), 20_000)
    routers = learnt(strategy, cluster, before)
    routers[0].route(after)
    strategy.boundary(routers, cluster, Counts.of(after))
    balance = imbalance(loads(routers[0].route(after), cluster)).relative
    assert balance > 0.5 if once else balance < 0.05


def test_a_source_that_has_learnt_keeps_no_summary() -> None:
    keys, cluster = skewed(5_000, 1), WorkerCluster.alike(20)
    untaught = DKG().router(cluster).nbytes
    assert learnt(DKG(), cluster, keys)[0].nbytes < untaught / 2
    assert learnt(DKG(once=False), cluster, keys)[0].nbytes > untaught / 2


def test_a_window_without_tuples_teaches_nothing() -> None:
    strategy, cluster = DKG(), WorkerCluster.alike(10)
    nothing = np.empty(0, np.uint64)
    routers = learnt(strategy, cluster, nothing)
    keys = cold_with(dict.fromkeys(range(10), 0.09), 20_000)
    routers[0].route(keys)
    strategy.boundary(routers, cluster, Counts.of(keys))
    assert imbalance(loads(routers[0].route(keys), cluster)).relative < 0.05


def test_a_source_alone_may_learn_by_itself() -> None:
    keys, cluster = cold_with(dict.fromkeys(range(10), 0.09), 20_000), WorkerCluster.alike(10)
    router = DKG().router(cluster)
    router.route(keys)
    router.window(cluster)
    assert imbalance(loads(router.route(keys), cluster)).relative < 0.05


@pytest.mark.parametrize("parameters", [{"theta": 0.0}, {"counters": 9}, {"buckets": 0}, {"buckets": 257}])
def test_parameters_out_of_bounds_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ParameterOutOfBounds, match="grouping dkg"):
        DKG(**parameters)  # type: ignore[arg-type]
