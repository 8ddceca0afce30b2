"""Exact sums of floats, in any order and any split, against Python's own exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics.kernels import exact
from sluice.metrics.packed import Damaged
from tests.examples import examples
from tests.metrics import states
from tests.metrics.states import added, merged, numeric

floats = st.one_of(
    st.floats(-1e100, 1e100),
    st.sampled_from([0.1, 0.2, -0.3, 1e100, -1e100, 5e-324, -5e-324, 0.0, -0.0, 1.5, 2.0**-1074 * 3]),
    st.integers(-(10**6), 10**6).map(lambda cents: cents / 100),
)
rows = st.lists(st.tuples(st.integers(0, 2), floats), max_size=30)
NOTHING = np.empty(0, np.int64)


def of(numbers: list[tuple[int, float]]) -> tuple[np.ndarray, np.ndarray]:
    owners = np.array([g for g, _ in numbers], np.int64)
    values = np.array([v for _, v in numbers], np.float64)
    words, bounds, sound = exact.add_up(values, owners, NOTHING, np.zeros(1, np.int64), NOTHING, 3)
    assert sound
    return words, bounds


def floats_of(words: np.ndarray, bounds: np.ndarray, integers: list[int]) -> list[float]:
    found, sound = exact.as_floats(words, bounds, np.array(integers))
    assert sound
    return found.tolist()


def written(words: np.ndarray, bounds: np.ndarray) -> list[Fraction | None]:
    """The sums that the words stand for, by the rule of the module's docstring."""
    found: list[Fraction | None] = []
    for begin, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        place, *digits = words[begin:end].tolist() or [0]
        scale = [Fraction(2) ** (32 * (place + n) - 34 * 32) for n in range(len(digits))]
        total = sum((d * s for d, s in zip(digits, scale, strict=True)), Fraction(0))
        found.append(total if end > begin else None)
        assert all(-(2**31) <= digit < 2**31 for digit in digits)
        assert not digits or (digits[0] and digits[-1])
    return found


@examples(150)
@given(rows)
def test_the_sum_is_exact(numbers: list[tuple[int, float]]) -> None:
    expected = [[Fraction(v) for g, v in numbers if g == group] for group in range(3)]
    words, bounds = of(numbers)
    assert written(words, bounds) == [sum(own, Fraction(0)) if own else None for own in expected]
    integers = [0, 2**62, -7]
    for found, integer, own in zip(floats_of(words, bounds, integers), integers, expected, strict=True):
        total = float(sum(own, Fraction(integer)))
        assert abs(found - total) <= math.ulp(total)


@examples(150)
@given(rows, st.randoms(use_true_random=False), st.integers(1, 5))
def test_order_and_split_change_no_byte(numbers: list[tuple[int, float]], random: object, parts: int) -> None:
    shuffled = list(numbers)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    pieces = [of(shuffled[n::parts]) for n in range(parts)]
    data = np.concatenate([words for words, _ in pieces])
    lengths = np.concatenate([np.diff(bounds) for _, bounds in pieces])
    bounds = np.append(0, np.cumsum(lengths))
    groups = np.tile(np.arange(3), parts)
    none = np.empty(0)
    words, ends, sound = exact.add_up(none, NOTHING, data, bounds, groups, 3)
    assert sound
    whole = of(numbers)
    assert (words.tolist(), ends.tolist()) == (whole[0].tolist(), whole[1].tolist())


def test_many_carries() -> None:
    words, bounds = of([(0, 2.0**53 - 1)] * 4096 + [(0, -(2.0**53 - 1))] * 4095 + [(1, -1.0)] * 3)
    assert written(words, bounds) == [Fraction(2**53 - 1), Fraction(-3), None]


def test_terms_that_cancel_leave_only_the_rest() -> None:
    one, other = numeric([0, 0], [0.1, 0.2], 1), numeric([0, 0, 0], [-0.1, -0.2, 1e-30], 1)
    state = merged(1, added(one, "sum", "avg"), added(other, "sum", "avg"))
    assert states.values(state, "sum") == [1e-30]
    assert states.values(state, "avg") == [1e-30 / 5]


def test_a_sum_of_fractions_that_cancels_is_zero_as_a_float() -> None:
    state = added(numeric([0, 0], [0.5, -0.5], 1), "sum")
    assert state["fractions"].null_count == 0
    assert states.values(state, "sum") == [0.0]


@pytest.mark.parametrize("place", [-1, 50, 1 << 40])
def test_a_damaged_state_is_named(place: int) -> None:
    state = added(numeric([0], [0.5], 1), "sum")
    data = np.array([place, 1]).tobytes()
    with pytest.raises(Damaged, match="fractions"):
        merged(1, {**state, "fractions": pa.array([data], pa.binary())})
    with pytest.raises(Damaged, match="fractions"):
        states.values({**state, "fractions": pa.array([data], pa.binary())}, "sum")
