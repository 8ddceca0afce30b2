"""The simulator against counting by hand and against theory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice import grouping
from sluice.grouping.base import Counts, Router, Strategy, Targets, WorkerCluster
from sluice.grouping.imbalance import replicas
from sluice.runtime.arrays import Hashes
from sluice_lab import named, streams
from sluice_lab.simulate import Simulation, simulate
from sluice_lab.state import Pairs
from sluice_lab.trials import Setting, rows, run, waits


class Remembering(Router):
    """A router that sends each tuple to the worker that its key names, and remembers its input."""

    def __init__(self, workers: int) -> None:
        self.workers, self.seen, self.windows = workers, np.empty(0, np.uint64), 0

    def route(self, keys: Hashes) -> Targets:
        self.seen = np.append(self.seen, keys)
        return (keys % np.uint64(self.workers)).astype(np.int32)

    def window(self, cluster: WorkerCluster) -> None:
        self.windows += 1

    @property
    def nbytes(self) -> int:
        return 8 * len(self.seen)


@dataclass(frozen=True)
class Plain(Strategy):
    """A strategy that routes by the key modulo W."""

    name: ClassVar[str] = "plain"
    counted: ClassVar[list[Counts]] = []

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return Remembering(cluster.workers)

    def boundary(self, routers: Sequence[Router], cluster: WorkerCluster, batch: Counts) -> None:
        self.counted.append(batch)
        super().boundary(routers, cluster, batch)


@dataclass(frozen=True)
class PlainCombining(Plain):
    name: ClassVar[str] = "plain combining"
    combines: ClassVar[bool] = True


def keys(*values: int) -> Hashes:
    return np.array(values, np.uint64)


def test_a_batch_is_measured_as_it_is_counted_by_hand() -> None:
    """Keys 0 and 2 go to worker 0, key 1 to worker 1, which takes twice as long."""
    found = simulate(Plain(), [keys(0, 0, 2, 1), keys(1, 1)], WorkerCluster((1.0, 2.0)), a_key=1024)
    first, second = found.batches
    assert (first.tuples, first.keys, first.total) == (4, 3, 4)
    assert (first.relative, first.share, first.absolute) == pytest.approx((0.2, 0.1, 0.5))  # loads 3 and 2
    assert first.makespan == pytest.approx(3 / (4 / 1.5))
    assert (first.replicas, first.held, first.sent, first.partials) == (1, 1, 1, 3)
    assert (second.tuples, second.keys, second.total) == (2, 1, 6)
    assert second.relative == pytest.approx(1.0)
    assert second.state_kib == 2.0  # worker 0 has two keys
    assert second.source_kib == 6 * 8 / 1024
    assert found.load.tolist() == [3.0, 6.0]
    assert found.state.tolist() == [2, 1]
    assert found.imbalance.relative == pytest.approx(1 / 3)


def test_tuples_come_to_the_sources_in_turn_and_keep_their_order() -> None:
    simulation = Simulation(Plain(), WorkerCluster.alike(4), sources=3)
    routed = simulation.batch(np.arange(10, dtype=np.uint64))
    seen = [router.seen.tolist() for router in simulation.routers if isinstance(router, Remembering)]
    assert seen == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert routed.keys.tolist() == list(range(10))
    assert routed.targets.tolist() == [n % 4 for n in range(10)]


def test_the_strategy_is_shown_each_batch_and_windows_end_with_it() -> None:
    Plain.counted.clear()
    simulation = Simulation(Plain(), WorkerCluster.alike(2), sources=2)
    for _ in range(2):
        simulation.batch(keys(5, 7, 5))
    assert [(batch.keys.tolist(), batch.counts.tolist()) for batch in Plain.counted] == [([5, 7], [2, 1])] * 2
    assert [router.windows for router in simulation.routers if isinstance(router, Remembering)] == [2, 2]


def test_a_combining_strategy_sends_a_row_for_each_key_of_a_source() -> None:
    batch = keys(1, 1, 1, 2, 1, 2)  # to the sources: 1 1 1, and 1 2 2
    found = simulate(PlainCombining(), [batch], WorkerCluster.alike(2), sources=2).batches[0]
    assert found.sent == 3 / 6
    assert found.partials == 2
    assert found.replicas == 1
    assert found.tuples == 6


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), min_size=1, max_size=300), st.integers(0, 300)
)
def test_pairs_are_a_set(pairs: list[tuple[int, int]], cut: int) -> None:
    held, at = keys(*(key for key, _ in pairs)), np.array([worker for _, worker in pairs], np.int32)
    found = Pairs(7)
    found.add(held[:cut], at[:cut])
    found.add(held[cut:], at[cut:])
    assert len(found) == len(set(pairs))
    assert found.by_worker.tolist() == [sum(worker == w for _, worker in set(pairs)) for w in range(7)]


def test_pairs_grow() -> None:
    drawn = streams.zipf(60_000, 0.5, 100_000)
    at = np.random.default_rng(1).integers(0, 50, len(drawn)).astype(np.int32)
    found = Pairs(50)
    found.add(drawn, at)
    assert len(found) / len(np.unique(drawn)) == pytest.approx(replicas(drawn, at))


@pytest.mark.parametrize("batches", [[], [keys()], [keys(1), keys()]])
def test_a_trial_without_batches_or_tuples_is_refused(batches: list[Hashes]) -> None:
    with pytest.raises(ValueError, match=r"no tuple|no batch"):
        simulate(Plain(), batches, WorkerCluster.alike(2))


@pytest.mark.parametrize("wrong", [{"sources": 0}, {"sources": 1_001}, {"a_key": -1}])
def test_what_is_beyond_the_bounds_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"sources|a_key"):
        simulate(Plain(), [keys(1)], WorkerCluster.alike(2), **wrong)


def test_the_same_seed_routes_alike_and_another_one_does_not() -> None:
    def load(seed: int) -> list[float]:
        batch = streams.edu(20_000)
        return simulate(grouping.strategy("key"), [batch], WorkerCluster.alike(8), seed=seed).load.tolist()

    assert load(1) == load(1)
    assert load(1) != load(2)


# Theory.


def expected_maximum(balls: int, bins: int) -> float:
    """The exact mean of the fullest bin when balls are thrown into bins at random.

    Given their sum, bins are independent Poisson numbers. So P(max <= m) is the probability that W such
    numbers, each at most m, add up to the number of balls, divided by the probability that any W do.
    """
    mean = balls / bins
    poisson = [np.exp(-mean)]
    for j in range(1, balls + 1):
        poisson.append(poisson[-1] * mean / j)
    whole = np.exp(-balls)
    for j in range(1, balls + 1):
        whole *= balls / j
    expected = 0.0
    for most in range(balls):
        total = np.array([1.0])
        for _ in range(bins):
            total = np.convolve(total, poisson[: most + 1])[: balls + 1]
        at_most = total[balls] / whole if len(total) > balls else 0.0
        expected += 1 - at_most
        if at_most > 1 - 1e-12:
            break
    return expected


def test_the_reference_itself_is_right() -> None:
    """Two balls in two bins give 1 or 2, equally likely; three give 3 in a quarter of cases."""
    assert expected_maximum(2, 2) == pytest.approx(1.5)
    assert expected_maximum(3, 2) == pytest.approx(2.25)
    assert expected_maximum(5, 1) == pytest.approx(5)


@pytest.mark.parametrize(("balls", "bins"), [(40, 8), (120, 20)])
def test_key_grouping_throws_keys_as_balls_into_bins(balls: int, bins: int) -> None:
    """With one tuple per key, the fullest worker, averaged over seeds, is the fullest bin."""
    strategy, batch = grouping.strategy("key"), streams.keys_of(np.arange(balls))
    cluster = WorkerCluster.alike(bins)
    found = [
        np.bincount(strategy.router(cluster, seed=seed).route(batch), minlength=bins).max()
        for seed in range(1_500)
    ]
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(expected_maximum(balls, bins), abs=4 * error)


@pytest.mark.parametrize(("tuples", "workers", "sources"), [(1_000, 7, 1), (1_003, 10, 4), (17, 64, 3)])
def test_shuffle_is_off_by_a_tuple_a_source_at_most(tuples: int, workers: int, sources: int) -> None:
    batch = streams.edu(tuples)
    found = simulate(grouping.strategy("shuffle"), [batch], WorkerCluster.alike(workers), sources=sources)
    assert found.load.sum() == tuples
    assert found.load.max() - found.load.min() <= sources
    if sources == 1:
        assert found.load.max() == -(-tuples // workers)


def test_shuffle_holds_a_key_where_one_of_its_tuples_fell() -> None:
    """A worker with n/W tuples misses a key of frequency p with probability (1 - p) ** (n/W)."""
    n, workers, frequencies = 64_000, 32, streams.edu_stream().probabilities
    pairs = workers * (1 - (1 - frequencies) ** (n / workers)).sum()
    seen = (1 - (1 - frequencies) ** n).sum()
    found = simulate(grouping.strategy("shuffle"), [streams.edu(n, 2)], WorkerCluster.alike(workers))
    assert found.state.sum() == pytest.approx(pairs, rel=0.01)
    assert found.batches[0].held == pytest.approx(pairs / seen, rel=0.01)


# Trials.


def test_a_trial_has_a_row_for_each_batch_with_its_setting() -> None:
    setting = Setting(streams.edu_stream(), workers=4, times="spread", sources=2, batches=3, tuples=500)
    found = rows("pkg", setting, run("pkg", setting))
    assert [row["batch"] for row in found] == [1, 2, 3]
    assert [row["total"] for row in found] == [500, 1_000, 1_500]
    labels = {"strategy": "pkg", "stream": "edu", "workers": 4, "sources": 2, "times": "spread"}
    assert all(labels.items() <= row.items() for row in found)


def test_latencies_are_of_the_last_batch_and_rise_with_utilisation() -> None:
    setting = Setting(streams.edu_stream(), workers=4, tuples=5_000)
    found = list(waits("shuffle", setting, run("shuffle", setting), [0.3, 0.9]))
    assert [row["utilisation"] for row in found] == [0.3, 0.9]
    assert float(found[0]["p99"]) < float(found[1]["p99"])


def test_strategies_have_names_with_parameters() -> None:
    assert named.strategy("kg2") == grouping.strategy("kg2")
    assert named.strategy("kg2:support=0.01:error=0.001") == grouping.strategy(
        "kg2", support=0.01, error=0.001
    )


@pytest.mark.parametrize("name", ["kg2:sup=0.01", "kg2:support", "kg2:support=much", "key:d=2"])
def test_parameters_that_a_strategy_does_not_have_are_named(name: str) -> None:
    with pytest.raises(named.NoSuchParameter, match="sets nothing"):
        named.strategy(name)


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(grouping.UnknownStrategy, match="'luck' is not known"):
        named.strategy("luck")
