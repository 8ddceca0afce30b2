"""The routing loop and its parts: the load, the selection, and what a router keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from sluice.grouping.base import Targets, WorkerCluster
from sluice.grouping.compiled import step
from sluice.grouping.load import SourceLoad, completion_times, load_of, own_counts, retime
from sluice.grouping.routing import LoopRouter, memory, router_loop
from sluice.grouping.selection import EVERY, least_loaded, only

NO_KEY = np.uint64(0)


def sent(load: SourceLoad, *tuples: int) -> SourceLoad:
    load.sent[:] = tuples
    return load


def arr(*workers: int) -> Targets:
    return np.array(workers, np.int32)


class Nothing(NamedTuple):
    """An assignment that needs no state."""

    unused: int = 0


@step
def _every(state: Nothing, key: np.uint64, candidates: Targets) -> int:
    return EVERY


@step
def _the_key_itself(state: Nothing, key: np.uint64, candidates: Targets) -> int:
    candidates[0] = key
    return 1


_to_any = router_loop(_every, least_loaded)
_to_its_number = router_loop(_the_key_itself, only)


def test_own_counts_are_alike_for_slow_workers_and_completion_times_are_not() -> None:
    cluster = WorkerCluster((1.0, 4.0))
    assert [load_of(sent(own_counts(cluster), 8, 3), worker) for worker in (0, 1)] == [8, 3]
    assert [load_of(sent(completion_times(cluster), 8, 3), worker) for worker in (0, 1)] == [8, 12]


def test_newly_measured_times_are_used() -> None:
    load = sent(completion_times(WorkerCluster((1.0, 4.0))), 8, 3)
    retime(load, WorkerCluster((2.0, 1.0)))
    assert [load_of(load, worker) for worker in (0, 1)] == [16, 3]


@pytest.mark.parametrize(
    ("candidates", "chosen"), [((1, 2, 3), 2), ((3, 2), 3), ((2, 3), 2), ((1,), 1), ((0, 1), 1)]
)
def test_the_least_loaded_candidate_is_chosen_and_the_first_of_equal_ones(
    candidates: tuple[int, ...], chosen: int
) -> None:
    load = sent(own_counts(WorkerCluster.alike(5)), 9, 7, 4, 4, 0)
    assert least_loaded(arr(*candidates), len(candidates), load, NO_KEY) == chosen


def test_candidates_beyond_the_count_are_not_looked_at() -> None:
    load = sent(own_counts(WorkerCluster.alike(3)), 9, 7, 0)
    assert least_loaded(arr(0, 1, 2), 2, load, NO_KEY) == 1


@pytest.mark.parametrize(("source", "chosen"), [(0, 1), (1, 1), (2, 3), (3, 3), (4, 1), (5, 1)])
def test_a_search_of_all_workers_begins_at_the_sources_own(source: int, chosen: int) -> None:
    load = sent(own_counts(WorkerCluster.alike(5), source), 9, 4, 7, 4, 8)
    assert least_loaded(arr(), EVERY, load, NO_KEY) == chosen


def test_workers_get_tuples_by_their_speed() -> None:
    cluster = WorkerCluster((1.0, 2.0, 4.0))
    router = LoopRouter(_to_any, Nothing(), completion_times(cluster))
    targets = router.route(np.zeros(7_000, np.uint64))
    assert np.bincount(targets).tolist() == pytest.approx([4_000, 2_000, 1_000], abs=1)


def test_a_router_counts_what_it_sent() -> None:
    router = LoopRouter(_to_its_number, Nothing(), own_counts(WorkerCluster.alike(4)))
    assert router.route(np.array([3, 1, 3], np.uint64)).tolist() == [3, 1, 3]
    assert router.route(np.array([0], np.uint64)).tolist() == [0]
    assert router.load.sent.tolist() == [1, 1, 0, 2]


def test_memory_is_that_of_the_arrays_within() -> None:
    load = own_counts(WorkerCluster.alike(10))
    assert memory((load, (load.sent, 7), 3)) == 160 + 80
    assert LoopRouter(_to_any, Nothing(), load).nbytes == 160
