"""What planned grouping remembers, how it packs, and the plan that results."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.base import Counts, WorkerCluster
from sluice.grouping.packing import OVERFILL, pack_keys, pack_whole
from sluice.grouping.planner import plan
from sluice.grouping.routing_plan import NONE, SPLIT, RoutingPlan, ends, guide, listing
from sluice.grouping.summary import Summary, buckets_of, hash_of
from sluice.runtime.arrays import Floats, Hashes
from tests.examples import examples

BUCKETS = 64
batches = st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=5)


def summary(
    batches: list[list[int]], *, room: int = 1024, kept: float = 0.5, buckets: int = BUCKETS
) -> Summary:
    past = Summary.empty(seed=3, room=room, buckets=buckets)
    for batch in batches:
        past = past.then(Counts.of(np.array(batch, np.uint64)), kept)
    return past


def planned(keys: Hashes, workers: int = 8, grain: float = 1 / 16, buckets: int = 1024) -> RoutingPlan:
    past = Summary.empty(seed=0, room=4096, buckets=buckets)
    return plan(past.then(Counts.of(keys), 0.5), WorkerCluster.alike(workers), grain)


def expected_loads(made: RoutingPlan) -> Floats:
    """The expected load of the listed keys, by worker."""
    sizes = np.diff(made.upto.astype(np.float64), prepend=0.0)
    sizes[made.first[:-1]] = made.upto[made.first[:-1]]
    weights = sizes / 2.0**64 * np.repeat(made.weights, np.diff(made.first))
    return np.bincount(made.parts, weights, made.workers)


# --- what is remembered


@given(batches=batches)
@examples(50)
def test_a_summary_with_room_is_exact_and_halves_the_past(batches: list[list[int]]) -> None:
    past = summary(batches)
    expected: Counter[int] = Counter()
    singles = 0.0
    for batch in filter(None, batches):
        expected = Counter({key: count / 2 for key, count in expected.items()})  # type: ignore[misc]
        expected.update(batch)
        singles = singles / 2 + list(Counter(batch).values()).count(1)
    assert dict(zip(past.keys.tolist(), past.counts.tolist(), strict=True)) == expected
    assert (past.tuples, past.singles) == (sum(expected.values()), singles)
    assert past.last == next((len(batch) for batch in reversed(batches) if batch), 0)


@given(batches=batches, room=st.integers(1, 8))
@examples(50)
def test_a_summary_without_room_keeps_the_most_frequent_keys_and_every_buckets_total(
    batches: list[list[int]], room: int
) -> None:
    past, exact = summary(batches, room=room), summary(batches)
    assert len(past.keys) == min(room, len(past.keys))
    assert past.buckets.tolist() == exact.buckets.tolist()
    assert past.distinct.tolist() == exact.distinct.tolist()
    known = dict(zip(exact.keys.tolist(), exact.counts.tolist(), strict=True))
    assert all(
        count <= known[key] for key, count in zip(past.keys.tolist(), past.counts.tolist(), strict=True)
    )
    if len([batch for batch in batches if batch]) == 1:
        assert sorted(past.counts) == sorted(known.values())[-room:]


def test_buckets_get_equally_many_keys() -> None:
    numbers = buckets_of(np.arange(64_000, dtype=np.uint64), 1, BUCKETS)
    counts = np.bincount(numbers, minlength=BUCKETS)
    assert 0.5 < ((counts - 1000) ** 2 / 1000).sum() / (BUCKETS - 1) < 1.6


def test_the_share_of_new_keys_is_that_of_keys_seen_once() -> None:
    assert summary([]).unseen == 1
    assert summary([[1, 1, 2, 3]]).unseen == 0.5
    assert summary([[1, 1, 2, 3], [1] * 5]).unseen == pytest.approx(1 / 7)
    assert summary([[1, 1]]).unseen == 0


# --- how it is packed


@given(
    weights=st.lists(st.integers(1, 1000), min_size=1, max_size=40),
    times=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=1, max_size=12),
)
def test_all_of_a_key_is_packed_and_no_split_is_wasted(weights: list[int], times: list[float]) -> None:
    shares = WorkerCluster(tuple(times)).shares
    sizes_of_keys, load = np.array(weights, np.float64), np.zeros(len(times))
    total = float(sizes_of_keys.sum())
    keys, workers, sizes = pack_keys(sizes_of_keys, shares, total, load)
    assert np.bincount(keys, sizes, len(weights)) == pytest.approx(sizes_of_keys)
    assert np.bincount(workers, sizes, len(times)) == pytest.approx(load)
    assert len(keys) - len(weights) <= len(times)
    # No worker is overfilled by more than is allowed, because a key that does not fit is split.
    assert (load <= shares * total * (1 + OVERFILL) + 1e-6).all()


@pytest.mark.parametrize(
    ("shares_of_a_worker", "parts"), [(0.9, 1), (1.005, 1), (1.2, 2), (2.5, 3), (7.0, 7)]
)
def test_a_key_is_split_into_no_more_parts_than_it_needs(shares_of_a_worker: float, parts: int) -> None:
    others = np.full(900, (20 - shares_of_a_worker) / 900)
    weights = np.concatenate([[shares_of_a_worker], others])
    keys, _, _ = pack_keys(weights, WorkerCluster.alike(20).shares, 20.0, np.zeros(20))
    assert np.count_nonzero(keys == 0) == parts


def test_weights_are_packed_largest_first_to_the_worker_that_is_free_first() -> None:
    """Graham's example: 4/3 - 1/(3W) of the optimum, the worst case of LPT with three workers."""
    load = np.zeros(3)
    owners = pack_whole(np.array([5.0, 5, 4, 4, 3, 3, 3]), WorkerCluster.alike(3).shares, load)
    assert sorted(load) == [8.0, 8.0, 11.0]
    assert owners.tolist()[:3] == [0, 1, 2]


def test_a_fast_worker_gets_more() -> None:
    load = np.zeros(2)
    pack_whole(np.ones(500), WorkerCluster((1.0, 4.0)).shares, load)
    assert load.tolist() == [400, 100]


# --- what is planned


def test_parts_end_where_their_sizes_say() -> None:
    upto = ends(np.array([0, 1, 4, 6]), np.array([5.0, 1, 2, 1, 3, 1]))
    assert upto / 2.0**64 == pytest.approx([1, 0.25, 0.75, 1, 0.75, 1])


@given(sizes=st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_the_guide_says_in_which_part_a_cell_begins(sizes: list[int]) -> None:
    first = np.array([0, len(sizes)])
    upto = ends(first, np.array(sizes, np.float64))
    for cell, part in enumerate(guide(first, upto).tolist()):
        begin = -(-(cell << 32) // len(sizes)) << 32
        assert part == min(np.searchsorted(upto, np.uint64(begin), side="right"), len(sizes) - 1)


@given(keys=st.lists(st.integers(0, (1 << 64) - 1), unique=True, max_size=60))
def test_a_listed_key_is_found_from_its_hash_and_at_most_half_the_slots_are_taken(keys: list[int]) -> None:
    slots, numbers = listing(np.array(keys, np.uint64), 5)
    assert np.count_nonzero(numbers != NONE) == len(keys) <= len(slots) / 2
    hashes = {int(slots[slot]): int(numbers[slot]) for slot in np.flatnonzero(numbers != NONE)}
    assert hashes == {hash_of(np.uint64(key), np.uint64(5)): n for n, key in enumerate(keys)}


def test_only_keys_of_at_least_a_grain_of_a_workers_share_are_listed() -> None:
    keys = np.repeat(np.arange(1, 301, dtype=np.uint64), np.arange(1, 301))
    made = planned(keys, workers=8, grain=1 / 25)
    least = len(keys) / 8 / 25
    assert made.keys.tolist() == sorted((k for k in range(1, 301) if k >= least), reverse=True)
    assert made.weights.tolist() == made.keys.tolist()


@pytest.mark.parametrize("times", [(1.0,) * 16, tuple(np.linspace(1, 4, 16).tolist())])
def test_all_workers_are_planned_to_finish_at_the_same_time(times: tuple[float, ...]) -> None:
    cluster = WorkerCluster(times)
    keys = np.minimum(np.random.default_rng(1).zipf(1.3, 100_000), 1 << 40).astype(np.uint64)
    past = Summary.empty(seed=0, room=1 << 20, buckets=4096).then(Counts.of(keys), 0.5)
    made = plan(past, cluster, 1 / 16)
    listed = dict(zip(made.keys.tolist(), made.weights.tolist(), strict=True))
    numbers = buckets_of(past.keys, 0, 4096)
    rest = [
        0.0 if key in listed else count for key, count in zip(past.keys.tolist(), past.counts, strict=True)
    ]
    cold = np.bincount(numbers, rest, 4096) * (1 - past.unseen) + len(keys) * past.unseen / 4096
    load = expected_loads(made) + np.bincount(made.homes[len(made.keys) :], cold, cluster.workers)
    assert load / load.sum() == pytest.approx(cluster.shares, rel=0.015)


def test_keys_never_seen_fall_to_all_workers() -> None:
    """Nine of ten buckets are empty; without a weight they would all go to one worker."""
    seen = np.repeat(np.arange(96, dtype=np.uint64), 50)
    made = planned(np.concatenate([seen, np.arange(1000, 1050, dtype=np.uint64)]), workers=8, buckets=1024)
    new = np.arange(1 << 30, (1 << 30) + 40_000, dtype=np.uint64)
    workers = made.homes[len(made.keys) + buckets_of(new, 0, 1024)]
    assert np.bincount(workers, minlength=8).min() > 40_000 / 8 / 2


def test_before_the_first_batch_nothing_is_listed_or_loose_and_buckets_are_spread_evenly() -> None:
    made = plan(Summary.empty(seed=0, room=4096, buckets=1024), WorkerCluster.alike(10), 1 / 16)
    assert len(made.keys) == 0
    assert not made.loose.any()
    assert set(np.bincount(made.homes, minlength=10)) == {102, 103}


def test_loose_units_have_many_tuples_and_few_keys() -> None:
    heavy = np.repeat(np.arange(64, dtype=np.uint64), 200)
    light = np.repeat(np.arange(1000, 41_000, dtype=np.uint64), 2)
    made = planned(np.concatenate([heavy, light]), workers=8, grain=1 / 128)
    assert made.keys.tolist() == list(range(64))
    listed, buckets = made.loose[:64], made.loose[64:]
    # 4.5 standard deviations of 11,600 tuples are 485: three of each worker's eight keys.
    assert np.bincount(made.homes[:64][listed], minlength=8).tolist() == [3] * 8
    assert not buckets.any()


def test_a_split_key_is_loose_and_first() -> None:
    made = planned(np.concatenate([np.full(5000, 1, np.uint64), np.arange(2, 5002, dtype=np.uint64)]))
    assert made.homes[0] == SPLIT
    assert made.loose[0]
    assert len(made.candidates(0)) == 4
