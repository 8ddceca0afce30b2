from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics.kernels.kll import EXACT
from sluice.metrics.packed import Damaged
from sluice.metrics.quantile import KLL
from tests.examples import examples
from tests.metrics.states import added, errors, merged, numeric, splits, values

NAMES = ("p0.1", "p1", "p25", "p50", "p75", "p95", "p99", "p99.9")


def true(ordered: np.ndarray, name: str) -> float:
    """The true quantile by the definition, in exact integers."""
    part = round(float(name[1:]) * 1000)
    return float(ordered[max(1, -(-part * len(ordered) // 100_000)) - 1])


def within(columns: dict[str, pa.Array], given_: list[np.ndarray]) -> None:
    """Assert that every quantile of every group is as near to the true one as it states."""
    for name in NAMES:
        for found, error, own in zip(values(columns, name), errors(columns, name), given_, strict=True):
            if len(own) == 0:
                assert (found, error) == (None, 0)
                continue
            assert abs(found - true(np.sort(own), name)) <= error, name
            if len(own) <= EXACT:
                assert error == 0


def rank_error(columns: dict[str, pa.Array], own: np.ndarray) -> float:
    """The greatest error of rank of the only group's quantiles, as a fraction of all values."""
    ordered, worst = np.sort(own), 0.0
    for name in NAMES:
        (found,) = values(columns, name)
        low, high = np.searchsorted(ordered, found, "left"), np.searchsorted(ordered, found, "right")
        wanted = float(name[1:]) / 100 * len(own)
        worst = max(worst, (low - wanted) / len(own), (wanted - high) / len(own))
    return worst


@pytest.mark.parametrize("count", [1, 2, 3, 99, 100, 101, 1000, EXACT])
def test_few_values_are_exact(count: int) -> None:
    own = np.random.default_rng(count).normal(0, 1e6, count)
    columns = added(numeric([0] * count, own, 1), *NAMES)
    for name in NAMES:
        assert values(columns, name) == [true(np.sort(own), name)]
        if "." not in name:  # numpy takes 99.9 % of 1000 for a little more than 999
            assert values(columns, name) == [np.percentile(own, float(name[1:]), method="inverted_cdf")]
        assert errors(columns, name) == [0]


def test_whole_numbers_are_written_as_such() -> None:
    columns = added(numeric([0, 0, 1, 2], [3.0, 5.0, 2.5, math.nan], 3), "p50")
    assert list(map(repr, values(columns, "p50"))) == ["3", "2.5", "None"]


SHAPES = {
    "uniform": lambda random, n: random.random(n),
    "long tail": lambda random, n: np.floor(random.lognormal(8, 2, n)),
    "few values": lambda random, n: random.integers(0, 5, n).astype(np.float64),
    "one value": lambda random, n: np.full(n, 304.0),
    "ascending": lambda random, n: np.arange(n, dtype=np.float64),
    "descending": lambda random, n: -np.arange(n, dtype=np.float64),
    "two clusters": lambda random, n: np.where(random.random(n) < 0.5, 0.0, 1e12) + random.random(n),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("parts", [1, 3, 60])
def test_many_values_are_within_the_error(shape: str, parts: int) -> None:
    random = np.random.default_rng(parts)
    own = SHAPES[shape](random, 150_000)
    state = None
    for part in np.array_split(np.arange(len(own)), parts):
        batch = added(numeric([0] * len(part), own[part], 1), *NAMES)
        state = batch if state is None else merged(1, state, batch)
    assert state is not None
    within(state, [own])
    assert rank_error(state, own) < 0.01
    assert state["kll"].nbytes < 12 << 10


@pytest.mark.slow
def test_a_thousand_small_batches() -> None:
    random = np.random.default_rng(5)
    own = np.floor(random.lognormal(8, 2, 40_000))
    state = added(numeric([0] * 40, own[:40], 1), *NAMES)
    for begin in range(40, len(own), 40):
        state = merged(1, state, added(numeric([0] * 40, own[begin : begin + 40], 1), *NAMES))
    within(state, [own])
    assert rank_error(state, own) < 0.01


@pytest.mark.slow
def test_the_same_batch_again_and_again() -> None:
    """Errors of repeated batches are not independent, but stay within the stated error."""
    own = np.random.default_rng(1).random(2_000)
    batch = added(numeric([0] * len(own), own, 1), *NAMES)
    state = batch
    for _ in range(199):
        state = merged(1, state, batch)
    within(state, [np.tile(own, 200)])
    for _ in range(5):
        state = merged(1, state, state)
    within(state, [np.tile(own, 6_400)])


@pytest.mark.slow
def test_groups_of_all_sizes_at_once() -> None:
    random = np.random.default_rng(2)
    sizes = [0, 1, 5, EXACT, EXACT + 1, 801, 1_601, 20_000, 0, 3_000]
    groups = random.permutation(np.repeat(np.arange(len(sizes)), sizes))
    own = np.where(random.random(len(groups)) < 0.1, math.nan, random.normal(0, 1, len(groups)))
    by_group = [own[(groups == g) & ~np.isnan(own)] for g in range(len(sizes))]
    within(added(numeric(groups, own, len(sizes)), *NAMES), by_group)
    for parts in (2, 9):
        states = [
            added(numeric(groups[rows], own[rows], len(sizes)), *NAMES)
            for rows in splits(len(own), parts, random)
        ]
        for order in (states, states[::-1]):
            within(merged(len(sizes), *order), by_group)
            left = order[0]
            for state in order[1:]:
                left = merged(len(sizes), left, state)
            within(left, by_group)


def test_the_same_batches_in_the_same_order_give_the_same_bytes() -> None:
    own = np.random.default_rng(3).random(30_000)

    def built() -> pa.Array:
        parts = [added(numeric([0] * 3_000, own[i : i + 3_000], 1), "p50") for i in range(0, 30_000, 3_000)]
        return merged(1, *parts)["kll"]

    assert built().equals(built())


def test_a_task_s_own_lines_of_a_batch() -> None:
    rows = np.arange(0, 10, 2)
    columns = added(numeric([0, 1, 0, 1, 0], np.arange(10.0), 2, rows), "p50")
    assert values(columns, "p50") == [4, 2]


@examples(60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 1), st.floats(allow_infinity=False)), max_size=20),
        min_size=1,
        max_size=5,
    )
)
def test_few_values_in_any_split(parts: list[list[tuple[int, float]]]) -> None:
    rows = [row for part in parts for row in part]
    states = [added(numeric([g for g, _ in part], [v for _, v in part], 2), *NAMES) for part in parts]
    for order in (states, states[::-1]):
        by_group = [np.array([v for g, v in rows if g == group and not math.isnan(v)]) for group in range(2)]
        within(merged(2, *order), by_group)


@examples(25)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 6_000), min_size=1, max_size=8), st.booleans())
def test_many_values_in_any_split(seed: int, sizes: list[int], tree: bool) -> None:
    random = np.random.default_rng(seed)
    parts = [random.choice([1.0, 1e3]) * random.standard_cauchy(size) for size in sizes]
    states = [added(numeric([0] * len(part), part, 1), *NAMES) for part in parts]
    while len(states) > 1:
        states = (
            [merged(1, *states[i : i + 2]) for i in range(0, len(states), 2)]
            if tree
            else [merged(1, *states)]
        )
    within(states[0], [np.concatenate(parts)])


def _words(*words: int) -> bytes:
    return np.array(words, np.int64).tobytes()


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 5,
        _words(0, 5),
        _words(-1, 5),
        _words(2),
        _words(2, 0, 0, 0, 0, 0, 5000, 1),
        _words(2, 0, 0, 0, 0, 0, -1, 1),
        _words(60, *[0] * 70),
        _words(1, *[0] * (EXACT + 1)),
    ],
)
def test_a_damaged_state_is_refused(data: bytes) -> None:
    column = {"kll": pa.array([data, _words(1, 0)])}
    with pytest.raises(Damaged, match="a state of kll is damaged"):
        KLL.merge(column, np.zeros(2, np.int64), 1)
    with pytest.raises(Damaged, match="a state of kll is damaged"):
        values(column, "p50")
