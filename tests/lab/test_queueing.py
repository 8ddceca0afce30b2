"""The queueing model, against a plain simulation and against queueing theory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import WorkerCluster
from sluice_lab.queueing import latencies, latency

ONE = np.zeros(400_000, np.int32)


def plain(targets: list[int], arrivals: list[float], times: list[float]) -> list[float]:
    """Simulate workers that each serve their tuples one after the other."""
    found = []
    for i, (worker, came) in enumerate(zip(targets, arrivals, strict=True)):
        clock = 0.0
        for other, when in zip(targets[: i + 1], arrivals[: i + 1], strict=True):
            if other == worker:
                clock = max(clock, when) + times[worker]
        found.append(clock - came)
    return found


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=1, max_size=30),
    st.lists(st.integers(1, 9), min_size=3, max_size=3),
)
def test_latencies_are_those_of_queues(tuples: list[tuple[int, int]], times: list[int]) -> None:
    targets = [worker for worker, _ in tuples]
    arrivals = np.cumsum([gap for _, gap in tuples]).astype(float)
    found = latencies(np.array(targets, np.int32), arrivals, np.array(times, float))
    assert found.tolist() == plain(targets, arrivals.tolist(), [float(t) for t in times])


@pytest.mark.parametrize("utilisation", [0.3, 0.6, 0.85])
def test_one_worker_with_poisson_arrivals_is_the_md1_queue(utilisation: float) -> None:
    waited = latency(ONE, WorkerCluster((2.0,)), utilisation, seed=7).mean - 2.0
    assert waited == pytest.approx(md1_wait(utilisation, 2.0), rel=0.05)


def test_tuples_sent_at_random_see_an_md1_queue_at_each_worker() -> None:
    """A Poisson stream that is split at random becomes several Poisson streams."""
    targets = np.random.default_rng(5).integers(0, 10, 400_000).astype(np.int32)
    assert latency(targets, WorkerCluster.alike(10), 0.7).mean - 1 == pytest.approx(md1_wait(0.7), rel=0.05)


def test_no_tuple_waits_if_tuples_come_evenly_and_go_in_turn() -> None:
    targets = np.arange(10_000, dtype=np.int32) % 4
    found = latency(targets, WorkerCluster.alike(4), 0.99, arrivals="even")
    assert found.p999 == pytest.approx(1.0)
    assert found.busiest == pytest.approx(0.99)


def test_percentiles_rise() -> None:
    found = latency(ONE, WorkerCluster.alike(1), 0.8)
    assert 1 <= found.p50 < found.p90 < found.p99 < found.p999
    assert found.p50 < found.mean < found.p90


def test_a_worker_with_more_than_it_can_serve_has_a_queue_without_bound() -> None:
    """All tuples go to one of two workers, which is full at half of the cluster's capacity."""
    short, long = (latency(ONE[:n], WorkerCluster.alike(2), 0.6) for n in (10_000, 100_000))
    assert short.busiest == pytest.approx(1.2, rel=0.05)
    assert not short.bounded
    assert long.mean > 5 * short.mean
    assert latency(ONE, WorkerCluster.alike(2), 0.4).bounded


def test_faster_workers_take_less_time() -> None:
    targets = np.arange(1_000, dtype=np.int32) % 2
    found = latency(targets, WorkerCluster((1.0, 3.0)), 0.3, arrivals="even")
    assert found.mean == pytest.approx(2.0)


@pytest.mark.parametrize(
    "wrong", [{"utilisation": 0.0}, {"utilisation": 1.0}, {"warm_up": 0.95}, {"arrivals": "bursts"}]
)
def test_what_is_beyond_the_bounds_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="is not defined"):
        latency(ONE[:10], WorkerCluster.alike(1), **wrong)  # type: ignore[arg-type]


def test_no_tuples_have_no_latency() -> None:
    with pytest.raises(ValueError, match="0 tuples"):
        latency(ONE[:0], WorkerCluster.alike(1))


def md1_wait(utilisation: float, service: float = 1.0) -> float:
    """Mean wait before service in the M/D/1 queue (Pollaczek 1930, Khinchine 1932)."""
    return utilisation * service / (2 * (1 - utilisation))
