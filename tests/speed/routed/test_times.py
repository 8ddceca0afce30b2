from __future__ import annotations

import numpy as np
import pytest

from sluice.speed.routed.times import HALF_LIFE, RANGE, WorkerTimes


def test_workers_are_alike_until_they_are_measured() -> None:
    times = WorkerTimes(3)
    assert len(set(times.cluster.times)) == 1
    times.add(np.zeros(3, np.int64), np.zeros(3))
    assert len(set(times.cluster.times)) == 1


def test_a_worker_that_is_slow_gets_less() -> None:
    times = WorkerTimes(2)
    times.add(np.array([100_000, 100_000]), np.array([10.0, 30.0]))
    fast, slow = times.cluster.times
    assert slow / fast == pytest.approx(3, rel=0.05)
    assert times.cluster.shares[0] == pytest.approx(0.75, abs=0.01)


def test_a_worker_is_not_left_out_however_slow_it_is() -> None:
    times = WorkerTimes(2)
    times.add(np.array([1_000_000, 10]), np.array([1.0, 1.0]))
    assert times.cluster.times[1] == pytest.approx(RANGE * 2 / 1_000_010)


def test_a_little_work_changes_times_little() -> None:
    times = WorkerTimes(2)
    times.add(np.array([1_000_000, 10]), np.array([1.0, 20e-6]))  # ten tuples took twice the time per tuple
    ordinary, unlucky = times.cluster.times
    assert unlucky == pytest.approx(ordinary, rel=0.02)
    times = WorkerTimes(2)
    times.add(np.array([2_400, 2_300]), np.array([0.010, 0.002]))  # the first worker's first call
    assert times.cluster.times[0] / times.cluster.times[1] < 1 + 1 / 8


def test_a_measurement_counts_half_after_the_half_life() -> None:
    times = WorkerTimes(2)
    times.add(np.array([1_000_000, 1_000_000]), np.array([10.0, 30.0]))
    for _ in range(int(HALF_LIFE) - 1):  # the batch below is the last one
        times.add(np.zeros(2, np.int64), np.zeros(2))
    times.add(np.array([500_000, 500_000]), np.array([5.0, 5.0]))
    fast, slow = times.cluster.times
    assert slow / fast == pytest.approx(2, rel=0.02)  # 10 s / 2 + 5 s against 30 s / 2 + 5 s
