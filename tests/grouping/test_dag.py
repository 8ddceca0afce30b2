"""DAG against its plain version, and what its greedy rule achieves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, ParameterOutOfBounds, WorkerCluster
from sluice.grouping.dag import DAG
from sluice.grouping.imbalance import imbalance, loads, replicas
from sluice.grouping.kg2 import KG2
from tests.examples import examples
from tests.grouping import plain_papers as plain
from tests.grouping.paper_streams import cold_with, skewed, workers_of


@examples(25)
@given(
    workers=st.integers(1, 70),
    source=st.integers(0, 100),
    seed=st.integers(0, 1 << 60),
    theta=st.sampled_from([0.5, 1.0]),
    slack=st.sampled_from([0.0, 0.1, 1.0]),
    room=st.sampled_from([1, 3, 50]),
    stream=st.integers(0, 1000),
)
def test_it_routes_as_the_plain_version(
    *, workers: int, source: int, seed: int, theta: float, slack: float, room: int, stream: int
) -> None:
    strategy, cluster = DAG(theta=theta, counters=4, slack=slack, table=room), WorkerCluster.alike(workers)
    kernel = strategy.router(cluster, source=source, seed=seed)
    slow = plain.DAG(workers, source=source, seed=seed, theta=theta, counters=4, slack=slack, room=room)
    for number in range(3):
        # Each window has other keys, so that some cool down.
        keys = (skewed(400, stream + number) + np.uint64(20 * number)) % np.uint64(60)
        assert kernel.route(keys).tolist() == [slow.route(int(key)) for key in keys]
        kernel.window(cluster)
        slow.window(cluster)


def test_cold_keys_have_one_worker() -> None:
    keys = cold_with({7: 0.3}, 20_000)  # a cold key has 1.4 tuples; a twentieth of a worker's share is 15
    targets = DAG().router(WorkerCluster.alike(64)).route(keys)
    assert len(workers_of(7, keys, targets)) > 10
    assert all(len(workers_of(key, keys, targets)) == 1 for key in np.unique(keys).tolist() if key != 7)


def test_it_balances_a_skewed_stream_with_fewer_replicas_than_two_choices() -> None:
    keys, cluster = skewed(100_000, 1, keys=5_000, z=0.8), WorkerCluster.alike(20)
    dag, kg2 = DAG().router(cluster).route(keys), KG2().router(cluster).route(keys)
    assert imbalance(loads(dag, cluster)).relative < 0.1
    assert replicas(keys, dag) < 1.1
    assert replicas(keys, kg2) > 1.5


def test_less_slack_balances_better_and_costs_replicas() -> None:
    keys, cluster = skewed(50_000, 1, keys=500), WorkerCluster.alike(20)
    routed = [DAG(slack=slack).router(cluster).route(keys) for slack in (0.01, 0.1, 1.0)]
    balance = [imbalance(loads(targets, cluster)).relative for targets in routed]
    copies = [replicas(keys, targets) for targets in routed]
    assert balance == sorted(balance)
    assert copies == sorted(copies, reverse=True)
    assert balance[2] > 2 * balance[1]
    assert copies[0] > copies[2]


def test_a_hot_key_keeps_the_worker_that_its_hash_named() -> None:
    cluster = WorkerCluster.alike(20)
    dag = DAG().router(cluster)
    few, many = cold_with({7: 0.0001}, 20_000), cold_with({7: 0.3}, 20_000)
    before = workers_of(7, few, dag.route(few))
    after = workers_of(7, many, dag.route(many))
    assert len(before) == 1
    assert before < after


def test_no_key_is_hot_before_shares_can_be_told() -> None:
    cluster = WorkerCluster.alike(20)  # 800 counters
    keys = np.full(801, 7, np.uint64)
    targets = DAG().router(cluster).route(keys)
    assert len(set(targets[:799].tolist())) == 1
    assert targets[799] != targets[0]


def test_a_key_that_cooled_down_leaves_the_table_when_the_window_ends() -> None:
    strategy, cluster = DAG(half_life=10_000), WorkerCluster.alike(20)
    dag = strategy.router(cluster)
    hot, cold = cold_with({7: 0.5}, 40_000), cold_with({7: 0.0002}, 40_000)
    dag.route(hot)
    dag.route(cold)
    dag.route(cold)
    strategy.boundary([dag], cluster, Counts.of(cold))
    assert len(workers_of(7, cold, dag.route(cold))) == 1


def test_a_full_table_leaves_further_hot_keys_to_their_hash() -> None:
    keys, cluster = cold_with({7: 0.3, 8: 0.3}, 20_000), WorkerCluster.alike(20)
    targets = DAG(table=1).router(cluster).route(keys)
    assert sorted(len(workers_of(key, keys, targets)) == 1 for key in (7, 8)) == [False, True]


def test_the_memory_of_a_source_is_counted_once() -> None:
    small, large = (DAG(table=room).router(WorkerCluster.alike(64)).nbytes for room in (1, 1 + (1 << 10)))
    # A key, its slot, 64 bits, and two to four slots in the hash table.
    assert 8 + 4 + 8 + 2 * 12 <= (large - small) / (1 << 10) <= 8 + 4 + 8 + 4 * 12


@pytest.mark.parametrize(
    "parameters",
    [{"theta": 0.0}, {"counters": 39}, {"slack": -1.0}, {"slack": 101.0}, {"table": 0}, {"half_life": 0}],
)
def test_parameters_out_of_bounds_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(ParameterOutOfBounds, match="grouping dag"):
        DAG(**parameters)  # type: ignore[arg-type]
