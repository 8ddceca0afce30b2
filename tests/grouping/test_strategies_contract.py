"""What every strategy guarantees, whatever its rule."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping import STRATEGIES, UnknownStrategy, strategy
from sluice.grouping.base import Counts, Router, Targets, WorkerCluster
from sluice.grouping.compiled import step
from sluice.runtime.arrays import Hashes
from tests.examples import examples

every = pytest.mark.parametrize("name", STRATEGIES)
BATCHES = st.lists(
    st.lists(st.one_of(st.integers(0, 9), st.integers(0, (1 << 64) - 1)), max_size=80), max_size=5
)
CLUSTERS = st.lists(st.sampled_from([1.0, 1.5, 4.0]), min_size=1, max_size=12).map(
    lambda times: WorkerCluster(tuple(times))
)


def run(
    name: str, cluster: WorkerCluster, batches: list[list[int]], sources: int, seed: int
) -> list[list[int]]:
    """The targets of each source's part of each batch.

    Source s has every `sources`-th tuple, from number s on.
    """
    rule = strategy(name)
    routers = [rule.router(cluster, source=source, seed=seed) for source in range(sources)]
    targets = []
    for batch in batches:
        keys = np.array(batch, np.uint64)
        targets += [router.route(keys[s::sources]).tolist() for s, router in enumerate(routers)]
        rule.boundary(routers, cluster, Counts.of(keys))
    return targets


def skewed(tuples: int) -> Hashes:
    keys = np.minimum(np.random.default_rng(3).zipf(1.3, tuples), 1 << 40)
    return keys.astype(np.uint64)


@every
@examples(25)
@given(cluster=CLUSTERS, batches=BATCHES, sources=st.integers(1, 3), seed=st.integers(0, 1 << 64))
def test_the_same_input_and_seed_give_the_same_workers(
    name: str, cluster: WorkerCluster, batches: list[list[int]], sources: int, seed: int
) -> None:
    once, again = (run(name, cluster, batches, sources, seed) for _ in range(2))
    assert once == again
    assert all(0 <= target < cluster.workers for targets in once for target in targets)
    assert sum(map(len, once)) == sum(map(len, batches))


@every
def test_a_target_is_a_32_bit_number_for_each_tuple(name: str) -> None:
    targets = strategy(name).router(WorkerCluster.alike(64)).route(skewed(5_000))
    assert (targets.dtype, targets.shape) == (np.int32, (5_000,))
    assert 0 <= targets.min() <= targets.max() < 64


@every
def test_a_cluster_of_one_worker_gets_everything(name: str) -> None:
    assert not np.any(run(name, WorkerCluster.alike(1), [[1, 2, 2], [2, 3, 4]], 1, 0))


@every
def test_an_empty_batch_changes_nothing(name: str) -> None:
    cluster, empty = WorkerCluster.alike(8), np.empty(0, np.uint64)
    one, other = (strategy(name).router(cluster) for _ in range(2))
    assert one.route(empty).tolist() == []
    keys = skewed(2_000)
    assert one.route(keys).tolist() == other.route(keys).tolist()


@every
def test_it_does_not_matter_how_a_batch_is_cut(name: str) -> None:
    """Between two windows a router decides tuple by tuple."""
    keys, cluster = skewed(6_000), WorkerCluster((1.0, 2.0, 3.0, 4.0) * 5)
    whole, parts = (planned_once(name, cluster) for _ in range(2))
    cut: list[Targets] = [parts.route(part) for part in np.split(keys, [1, 2, 700, 701, 3_000])]
    assert np.concatenate(cut).tolist() == whole.route(keys).tolist()


def planned_once(name: str, cluster: WorkerCluster) -> Router:
    """A router that has routed one batch, so that it has the plan that its rule makes, if any."""
    rule = strategy(name)
    router = rule.router(cluster)
    router.route(skewed(3_000))
    rule.boundary([router], cluster, Counts.of(skewed(3_000)))
    return router


@every
def test_keys_may_lie_anywhere_and_need_not_be_writable(name: str) -> None:
    keys = skewed(1_000)
    scattered = np.repeat(keys, 2)[::2]
    lent = np.frombuffer(keys.tobytes(), np.uint64)
    plain, one, other = (strategy(name).router(WorkerCluster.alike(8)) for _ in range(3))
    expected = plain.route(keys).tolist()
    assert one.route(scattered).tolist() == expected
    assert other.route(lent).tolist() == expected


@every
def test_routing_leaves_the_keys_as_they_were(name: str) -> None:
    keys = skewed(1_000)
    strategy(name).router(WorkerCluster.alike(8)).route(keys)
    assert keys.tolist() == skewed(1_000).tolist()


@every
def test_a_router_states_its_memory(name: str) -> None:
    small, large = (strategy(name).router(WorkerCluster.alike(workers)).nbytes for workers in (8, 800))
    assert 0 < small <= large < 1 << 26


@every
def test_its_name_is_its_place_in_the_registry(name: str) -> None:
    assert STRATEGIES[name].name == name
    assert strategy(name) == STRATEGIES[name]()
    assert hash(strategy(name)) == hash(strategy(name))


def test_a_name_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownStrategy, match=r"grouping 'random' is not known: use one of key, .*combine"):
        strategy("random")
    assert "random" not in STRATEGIES
    assert len(STRATEGIES) == len(set(STRATEGIES)) == 12


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_registry_costs_no_numba() -> None:
    assert (
        python("import sys, sluice.grouping as g; list(g.STRATEGIES); print('numba' in sys.modules)")
        == "False"
    )


@pytest.mark.slow
def test_a_loop_that_one_process_compiled_is_not_compiled_again_by_another() -> None:
    strategy("key").router(WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64))
    code = (
        "import numpy as np; from sluice.grouping import key, base\n"
        "key.Key().router(base.WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64))\n"
        "print(sum(key._route.stats.cache_hits.values()), sum(key._route.stats.cache_misses.values()))"
    )
    assert python(code) == "1 0"


@pytest.mark.slow
def test_the_name_of_a_kernels_code_on_disk_changes_with_every_step_that_it_reaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel calls a step that calls another, in three files; only the last file changes."""

    def write(name: str, decorator: str, imports: str, value: str) -> None:
        (tmp_path / f"{name}.py").write_text(
            f"from sluice.grouping.compiled import {decorator}\n{imports}\n"
            f"@{decorator}\ndef {name}() -> 'int':\n    return {value}\n"
        )

    write("far", "step", "", "1")
    write("near", "step", "from far import far", "far()")
    write("top", "kernel", "from near import near", "near()")
    monkeypatch.syspath_prepend(tmp_path)
    name = "import top; print(top.top.py_func.__qualname__)"
    before = python(name)
    assert python(name) == before
    write("far", "step", "", "23")
    assert python(name) != before


def test_a_step_that_returns_an_array_is_refused() -> None:
    def whole(keys: Hashes) -> Hashes:
        return keys

    with pytest.raises(TypeError, match="whole returns Hashes"):
        step(whole)
