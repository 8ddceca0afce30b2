"""TAG against its plain version, and what paper 001 says of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, ParameterOutOfBounds, Router, WorkerCluster
from sluice.grouping.imbalance import makespan
from sluice.grouping.pkg import PartialKey
from sluice.grouping.tag import TAG, RoutingRows
from sluice.runtime.arrays import Hashes
from tests.examples import examples
from tests.grouping import plain_papers as plain
from tests.grouping.paper_streams import cold_with, skewed, workers_of


def end_of_batch(routers: list[Router], cluster: WorkerCluster, keys: Hashes) -> None:
    TAG().boundary(routers, cluster, Counts.of(keys))


@examples(20)
@given(
    windows=st.lists(st.lists(st.floats(0.1, 350), min_size=7, max_size=7), min_size=1, max_size=4),
    workers=st.integers(1, 7),
    seed=st.integers(0, 1 << 60),
    theta=st.sampled_from([0.2, 1.0]),
    stream=st.integers(0, 1000),
)
def test_it_routes_as_the_plain_version(
    windows: list[list[float]], workers: int, seed: int, theta: float, stream: int
) -> None:
    clusters = [WorkerCluster(tuple(times[:workers])) for times in windows]
    kernel = TAG(theta=theta).router(clusters[0], seed=seed)
    slow = plain.TAG(clusters[0], seed, theta, 10)
    for number, cluster in enumerate(clusters):
        keys = skewed(300, stream + number)
        assert kernel.route(keys).tolist() == [slow.route(int(key)) for key in keys]
        kernel.window(cluster)
        slow.window(cluster)


def test_a_hot_key_has_two_workers_in_the_first_window_and_its_segments_workers_from_then_on() -> None:
    cluster = WorkerCluster.alike(20)
    tag = TAG().router(cluster)
    keys = cold_with({7: 0.3, 8: 0.009}, 20_000)  # a fifth of a worker's share is 0.01
    first = tag.route(keys)
    assert len(workers_of(7, keys, first)) == 2
    end_of_batch([tag], cluster, keys)
    second = tag.route(keys)
    assert 10 < len(workers_of(7, keys, second)) <= 20  # 30 segments
    assert len(workers_of(8, keys, second)) <= 2


def test_segments_are_drawn_in_proportion_to_speed() -> None:
    """Formula (4) for 20,000 keys of one segment each, within five standard deviations."""
    cluster = WorkerCluster((1.0, 2.0, 4.0, 350.0))
    keys, segments = np.arange(20_000, dtype=np.uint64), np.ones(20_000, np.int64)
    rows = RoutingRows.of(keys, segments, cluster.shares, np.uint64(5))
    drawn = np.bincount(rows.workers, minlength=4)
    assert drawn.sum() == 20_000
    spread = np.sqrt(20_000 * cluster.shares * (1 - cluster.shares))
    assert (abs(drawn - 20_000 * cluster.shares) < 5 * spread).all()


def test_a_row_names_a_worker_once() -> None:
    keys, segments = np.arange(100, dtype=np.uint64), np.full(100, 15)
    rows = RoutingRows.of(keys, segments, WorkerCluster.alike(10).shares, np.uint64(5))
    named = [
        rows.workers[start:end].tolist() for start, end in zip(rows.bounds, rows.bounds[1:], strict=False)
    ]
    assert all(1 < len(row) <= 10 and len(set(row)) == len(row) for row in named)
    assert len({tuple(row) for row in named}) > 90


def test_a_row_changes_little_when_a_speed_changes() -> None:
    """One of 50 workers becomes half as fast.

    The bounds of the others move by 1/100 at most, which together changes a quarter of all segments. If all
    were drawn again, 98 % would change.
    """
    times = np.ones(50)
    keys, segments = np.arange(2_000, dtype=np.uint64), np.ones(2_000, np.int64)
    before = RoutingRows.of(keys, segments, WorkerCluster(tuple(times)).shares, np.uint64(5)).workers
    times[49] = 2.0
    after = RoutingRows.of(keys, segments, WorkerCluster(tuple(times)).shares, np.uint64(5)).workers
    assert 0.2 < (before != after).mean() < 0.3


def test_sources_that_counted_alike_have_the_same_rows() -> None:
    cluster = WorkerCluster.alike(20)
    routers = [TAG().router(cluster, source=source, seed=3) for source in range(3)]
    keys = cold_with({7: 0.2}, 10_000)
    for router in routers:
        router.route(keys)
    end_of_batch(routers, cluster, keys)
    spread = [workers_of(7, keys, router.route(keys)) for router in routers]
    assert spread[0] == spread[1] == spread[2]


def test_a_key_that_was_hot_is_cold_after_a_window_without_it() -> None:
    cluster = WorkerCluster.alike(20)
    tag = TAG().router(cluster)
    with_it, without = cold_with({7: 0.5}, 10_000), cold_with({}, 10_000)
    spread = []
    for keys in (with_it, with_it, without, with_it):
        spread.append(len(workers_of(7, keys, tag.route(keys))))
        end_of_batch([tag], cluster, keys)
    assert spread[0] == 2
    assert spread[1] > 10
    assert spread[3] == 2


def test_unequal_workers_get_unequal_shares() -> None:
    cluster = WorkerCluster(tuple(np.linspace(1, 4, 20).tolist()))
    keys = skewed(50_000, 1, keys=5_000)
    tag, pkg = TAG().router(cluster), PartialKey().router(cluster)
    tag.route(keys)
    end_of_batch([tag], cluster, keys)
    assert makespan(tag.route(keys), cluster) < 1.05
    assert makespan(pkg.route(keys), cluster) > 1.5


def test_a_worker_that_has_become_slow_gets_less_from_the_next_window_on() -> None:
    cluster = WorkerCluster.alike(10)
    slower = WorkerCluster((4.0, *cluster.times[1:]))
    tag = TAG().router(cluster)
    keys = skewed(20_000, 1, keys=2_000, z=0.8)  # no key has more than two workers can take
    shares = []
    for measured in (cluster, slower, slower):
        shares.append((tag.route(keys) == 0).mean())
        end_of_batch([tag], measured, keys)
    assert shares[:2] == pytest.approx([0.1, 0.1], abs=0.01)
    assert shares[2] == pytest.approx(0.25 / 9.25, abs=0.005)


def test_a_window_without_tuples_ends() -> None:
    cluster = WorkerCluster.alike(4)
    tag = TAG().router(cluster)
    tag.window(cluster)
    assert len(tag.route(skewed(100, 1))) == 100


@pytest.mark.parametrize(
    "parameters", [{"theta": 0.0}, {"theta": 1.5}, {"counters": 0}, {"counters": 9}, {"theta": 0.1}]
)
def test_a_threshold_finer_than_the_summary_resolves_is_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ParameterOutOfBounds, match="grouping tag"):
        TAG(**parameters)  # type: ignore[arg-type]
