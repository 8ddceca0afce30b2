"""The estimators against their plain versions, and within their bounds of exact counts."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping.compiled import kernel
from sluice.grouping.frequency import exact, lossy_counting, space_saving
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put, remove, table
from sluice.grouping.routing import memory
from sluice.runtime.arrays import Hashes
from tests.examples import examples
from tests.grouping import plain

STREAMS = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 1 << 64 - 1)), max_size=300)
HALF_LIVES = st.sampled_from([1, 7, 20, 100, FOREVER])
ESTIMATORS: list[tuple[ModuleType, Any]] = [
    (space_saving, lambda: space_saving.space_saving(200)),
    (lossy_counting, lambda: lossy_counting.lossy_counting(0.005)),
    (exact, lambda: exact.exact(100_000)),
]
each = pytest.mark.parametrize(("estimator", "empty"), ESTIMATORS, ids=["space saving", "lossy", "exact"])


def arr(keys: list[int]) -> Hashes:
    return np.array(keys, np.uint64)


def skewed(tuples: int, seed: int = 0, skew: float = 1.3) -> Hashes:
    keys = np.minimum(np.random.default_rng(seed).zipf(skew, tuples), 1 << 40)
    return keys.astype(np.uint64)


@pytest.mark.slow
@examples(150)
@given(STREAMS, st.integers(1, 20), HALF_LIVES)
def test_space_saving_equals_its_plain_version(keys: list[int], counters: int, half_life: int) -> None:
    state = space_saving.space_saving(counters, half_life)
    slow = plain.SpaceSaving(counters, half_life)
    for key in keys:
        assert space_saving.observe(state, np.uint64(key)) == slow.observe(key)
        used = [counter for counter in slow.counters if counter[0]]
        rows = zip(state.counts.tolist(), state.keys.tolist(), state.errors.tolist(), strict=True)
        assert [list(row) for row in rows if row[0]] == used
    assert state.total[0] == slow.total


@pytest.mark.slow
@examples(150)
@given(STREAMS, st.sampled_from([1.0, 0.5, 0.13, 0.05]), HALF_LIVES)
def test_lossy_counting_equals_its_plain_version(keys: list[int], epsilon: float, half_life: int) -> None:
    state = lossy_counting.lossy_counting(epsilon, half_life)
    slow = plain.LossyCounting(epsilon, half_life)
    for key in keys:
        assert lossy_counting.observe(state, np.uint64(key)) == slow.observe(key)
        size = state.size[0]
        rows = zip(state.keys[:size], state.counts[:size], state.deltas[:size], strict=True)
        assert {int(key): (int(n), int(delta)) for key, n, delta in rows} == slow.entries
        assert (state.total[0], state.bucket[0]) == (slow.total, slow.bucket)


@pytest.mark.slow
@given(STREAMS, HALF_LIVES)
def test_exact_equals_its_plain_version(keys: list[int], half_life: int) -> None:
    state, slow = exact.exact(1, half_life), plain.Exact(half_life)
    for key in keys:
        state = exact.with_room(state, 1)
        assert exact.observe(state, np.uint64(key)) == slow.observe(key)
        size = state.size[0]
        assert dict(zip(state.keys[:size].tolist(), state.counts[:size].tolist(), strict=True)) == slow.counts
    assert state.total[0] == slow.total


@pytest.mark.slow
@each
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_the_true_count(estimator: ModuleType, empty: Any, seed: int) -> None:
    keys = skewed(50_000, seed)
    state, true = empty(), Counter(keys.tolist())
    estimator.observe_all(state, keys)
    assert state.total[0] == len(keys)
    found = estimator.frequent(state, 0.0)
    for key, estimate, lower, upper in zip(*(column.tolist() for column in found), strict=True):
        assert lower <= true[key] <= upper
        assert abs(estimate - true[key]) <= estimator.error_bound(state)
        assert estimator.estimate(state, np.uint64(key)) == estimate
    kept = set(found.keys.tolist())
    assert max((n for key, n in true.items() if key not in kept), default=0) <= estimator.error_bound(state)


@each
def test_no_frequent_key_is_missing_and_the_most_frequent_are_first(
    estimator: ModuleType, empty: Any
) -> None:
    keys = skewed(50_000)
    state, true = empty(), Counter(keys.tolist())
    estimator.observe_all(state, keys)
    bound = estimator.error_bound(state)
    found = estimator.frequent(state, 0.02 - bound / len(keys))
    assert {key for key, n in true.items() if n >= 0.02 * len(keys)} <= set(found.keys.tolist())
    assert all(true[key] >= 0.02 * len(keys) - 2 * bound for key in found.keys.tolist())
    assert (np.diff(found.estimates) <= 0).all()
    assert found.keys[0] == true.most_common(1)[0][0]


def test_space_saving_is_wrong_by_at_most_its_share() -> None:
    for counters in (10, 100, 1_000):
        state = space_saving.space_saving(counters)
        space_saving.observe_all(state, skewed(30_000))
        assert space_saving.error_bound(state) <= 30_000 / counters
        assert state.counts.sum() == 30_000


@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_lossy_counting_keeps_no_more_than_the_papers_bound(epsilon: float) -> None:
    """A hard stream (Zipf 1.05): most keys do not recur soon, so many have an entry at once."""
    state = lossy_counting.lossy_counting(epsilon)
    tuples = 40_000
    most = 0
    for keys in np.split(skewed(tuples, skew=1.05), 100):
        lossy_counting.observe_all(state, keys)
        most = max(most, int(state.size[0]))
        assert lossy_counting.error_bound(state) <= epsilon * state.total[0]
    assert most <= np.log(epsilon * tuples) / epsilon + state.width


@pytest.mark.parametrize(("estimator", "empty"), ESTIMATORS[:2], ids=["space saving", "lossy"])
def test_an_estimator_that_was_cleared_is_a_new_one(estimator: ModuleType, empty: Any) -> None:
    used, new = empty(), empty()
    estimator.observe_all(used, skewed(5_000, 1))
    estimator.clear(used)
    for state in (used, new):
        estimator.observe_all(state, skewed(5_000, 2))
    for one, other in zip(estimator.frequent(used, 0.0), estimator.frequent(new, 0.0), strict=True):
        assert one.tolist() == other.tolist()


@pytest.mark.parametrize(
    ("estimator", "state"),
    [
        (space_saving, space_saving.space_saving(100, half_life=1_000)),
        (lossy_counting, lossy_counting.lossy_counting(0.01, half_life=1_000)),
        (exact, exact.exact(1_000, half_life=1_000)),
    ],
)
def test_yesterdays_hot_key_is_forgotten(estimator: ModuleType, state: Any) -> None:
    """A key has every tuple for 100 half-lives, then none for 7: less than 1 % is left."""
    hot = np.uint64(7)
    estimator.observe_all(state, np.full(100_000, hot))
    assert estimator.estimate(state, hot) >= 900
    estimator.observe_all(state, np.arange(7_000, dtype=np.uint64) % 50 + 100)
    assert 1_000 <= state.total[0] <= 2_000
    assert estimator.estimate(state, hot) <= 0.01 * state.total[0] + estimator.error_bound(state)
    assert hot not in estimator.frequent(state, 0.015).keys


def test_without_a_half_life_it_is_not_forgotten() -> None:
    state = space_saving.space_saving(100)
    space_saving.observe_all(state, np.full(100_000, 7, np.uint64))
    space_saving.observe_all(state, np.arange(7_000, dtype=np.uint64) % 50 + 100)
    assert space_saving.frequent(state, 0.9).keys.tolist() == [7]


@pytest.mark.slow
def test_halving_keeps_the_bounds_of_the_weighted_counts() -> None:
    """A tuple's weight is halved whenever the totals are halved after it."""
    keys = skewed(20_000, skew=1.5)
    for estimator, state in (
        (space_saving, space_saving.space_saving(100, half_life=500)),
        (lossy_counting, lossy_counting.lossy_counting(0.01, half_life=500)),
    ):
        weights: Counter[int] = Counter()
        total = 0.0
        for key in keys:
            halved = state.total[0] >= 1_000 if estimator is space_saving else False
            before = state.total[0]
            estimator.observe(state, key)
            if halved:
                weights = Counter({k: w / 2 for k, w in weights.items()})
            weights[int(key)] += 1
            if estimator is lossy_counting and state.total[0] < before:
                weights = Counter({k: w / 2 for k, w in weights.items()})
            total = max(total, state.total[0])
        assert total <= 1_000
        assert abs(sum(weights.values()) - state.total[0]) <= 1
        found = estimator.frequent(state, 0.0)
        for key, lower, upper in zip(found.keys.tolist(), found.lower, found.upper, strict=True):
            assert lower <= weights[key] <= upper
        kept = set(found.keys.tolist())
        left = max((w for key, w in weights.items() if key not in kept), default=0.0)
        assert left <= estimator.error_bound(state)
        assert estimator.error_bound(state) <= state.total[0] / 100 + 1


@pytest.mark.parametrize(
    "refused",
    [
        lambda: space_saving.space_saving(0),
        lambda: space_saving.space_saving(10, half_life=0),
        lambda: lossy_counting.lossy_counting(0),
        lambda: lossy_counting.lossy_counting(1.1),
        lambda: lossy_counting.lossy_counting(float("nan")),
        lambda: lossy_counting.lossy_counting(0.1, half_life=FOREVER + 1),
        lambda: exact.exact(10, half_life=0),
    ],
)
def test_what_is_out_of_bounds_is_refused(refused: Any) -> None:
    with pytest.raises(ValueError, match="must be"):
        refused()


def test_memory_is_as_the_docstrings_say() -> None:
    counters = 1 << 12
    assert 40 + 24 <= memory(space_saving.space_saving(counters)) / counters <= 40 + 48 + 1
    state = lossy_counting.lossy_counting(0.001)
    assert 28 + 24 <= memory(state) / len(state.keys) <= 28 + 48 + 1


@kernel
def _insert(held: CounterTable, key: np.uint64, entry: int, places: Places) -> None:
    put(held, find(held, key), key, entry, places)


@pytest.mark.slow
@examples(200)
@given(st.lists(st.tuples(st.integers(0, 15), st.integers(0, 40)), max_size=120))
def test_a_table_is_a_dictionary(commands: list[tuple[int, int]]) -> None:
    """Entry n gets a key, and whatever used either is removed first; 16 entries, 32 slots."""
    held, places = table(16), np.full(16, NOWHERE, np.int32)
    expected: dict[int, int] = {}
    for entry, key in commands:
        for used in [k for k, e in expected.items() if e == entry or k == key]:
            remove(held, expected.pop(used), places)
        _insert(held, np.uint64(key), entry, places)
        expected[key] = entry
        assert {k: int(held.entries[find(held, np.uint64(k))]) for k in range(41)} == {
            k: expected.get(k, NOWHERE) for k in range(41)
        }
        assert all(places[e] == find(held, np.uint64(k)) for k, e in expected.items())
