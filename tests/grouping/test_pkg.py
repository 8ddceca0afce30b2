from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping import strategy
from sluice.grouping.base import Targets, WorkerCluster
from sluice.grouping.imbalance import imbalance, loads, replicas
from sluice.runtime.arrays import Hashes
from tests.grouping import plain

KEYS = st.lists(st.one_of(st.integers(0, 9), st.integers(0, plain.ALL_BITS)), max_size=200)
SLOW = {"key": plain.Key, "shuffle": plain.Shuffle, "pkg": plain.PartialKey}


def routed(name: str, keys: Hashes, cluster: WorkerCluster) -> Targets:
    return strategy(name).router(cluster).route(keys)


@pytest.mark.parametrize("name", SLOW)
@given(keys=KEYS, workers=st.integers(1, 40), source=st.integers(0, 50), seed=st.integers(0, 9))
def test_it_equals_its_plain_version(
    name: str, keys: list[int], workers: int, source: int, seed: int
) -> None:
    router = strategy(name).router(WorkerCluster.alike(workers), source=source, seed=seed)
    slow = SLOW[name]([1.0] * workers, source, seed)
    assert router.route(np.array(keys, np.uint64)).tolist() == slow.route(keys)
    assert router.route(np.array(keys[::-1], np.uint64)).tolist() == slow.route(keys[::-1])


def test_pkg_gives_a_key_the_worker_of_key_grouping_or_one_other() -> None:
    cluster, keys = WorkerCluster.alike(64), np.repeat(np.arange(300, dtype=np.uint64), 40)
    np.random.default_rng(0).shuffle(keys)
    own, found = routed("key", keys, cluster), routed("pkg", keys, cluster)
    for key in range(300):
        first, second = plain.candidates(key, 2, 64, 0)
        assert set(own[keys == key].tolist()) == {first}
        assert set(found[keys == key].tolist()) <= {first, second}
    assert 290 < len(np.unique(keys[found != own])) <= 300


def test_pkg_halves_the_hot_key_and_balances_the_rest() -> None:
    """Half of all tuples have one key; its two workers share it and the keys of just these two."""
    cluster = WorkerCluster.alike(10)
    keys = np.arange(20_000, dtype=np.uint64)
    keys[::2] = 77
    load = np.sort(loads(routed("pkg", keys, cluster), cluster))
    assert load[-2:].sum() == pytest.approx(10_000 * (1 + 1 / 45), abs=60)
    assert load[-1] - load[-2] <= 1
    assert load[:-2].max() - load[:-2].min() <= 25


def test_pkg_balances_where_key_grouping_does_not() -> None:
    """Zipf 0.9 with 10,000 keys: the hottest has 0.04 of all tuples, below 2/W for W = 20."""
    cluster = WorkerCluster.alike(20)
    chances = 1 / np.arange(1, 10_001) ** 0.9
    keys = np.random.default_rng(2).choice(10_000, 100_000, p=chances / chances.sum()).astype(np.uint64)
    own, both = routed("key", keys, cluster), routed("pkg", keys, cluster)
    assert imbalance(loads(own, cluster)).relative > 0.3
    assert imbalance(loads(both, cluster)).relative < 0.01
    assert replicas(keys, own) == 1
    assert 1 < replicas(keys, both) <= 2


def test_shuffles_sources_begin_at_different_workers() -> None:
    cluster, one = WorkerCluster.alike(8), np.zeros(1, np.uint64)
    firsts = [strategy("shuffle").router(cluster, source=source).route(one)[0] for source in range(8)]
    assert sorted(firsts) == list(range(8))


def test_combine_routes_what_is_sent_as_key_grouping_does() -> None:
    keys, cluster = np.arange(1_000, dtype=np.uint64), WorkerCluster.alike(7)
    assert routed("combine", keys, cluster).tolist() == routed("key", keys, cluster).tolist()
    assert strategy("combine").combines
    assert not strategy("key").combines
