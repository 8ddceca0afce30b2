from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.metrics.states import added, merged, numeric, values


def exact(given: list[float]) -> float:
    numbers = [Fraction(v) for v in given]
    mean = sum(numbers) / len(numbers)
    return math.sqrt(sum((v - mean) ** 2 for v in numbers) / len(numbers))


@pytest.mark.parametrize("parts", [1, 2, 25])
@pytest.mark.parametrize(
    ("offset", "scale"), [(0, 1), (1e9, 1), (1e12, 1e-3), (-1e15, 1), (0, 1e-150), (0, 1e150), (1e100, 1e90)]
)
def test_of_measures_far_from_zero(parts: int, offset: float, scale: float) -> None:
    """The values differ only in their last digits, which sums of squares lose altogether."""
    own = offset + scale * np.random.default_rng(parts).random(500)
    states = [added(numeric([0] * len(part), part, 1), "stddev") for part in np.array_split(own, parts)]
    one_by_one = states[0]
    for state in states[1:]:
        one_by_one = merged(1, one_by_one, state)
    for columns in (merged(1, *states), merged(1, *states[::-1]), one_by_one):
        (found,) = values(columns, "stddev")
        if scale > 1e150:
            assert found is None  # no float holds the squares
        else:
            assert math.isclose(found, exact(own.tolist()), rel_tol=1e-9)


def test_of_one_value_however_often_it_is_zero() -> None:
    state = added(numeric([0, 0, 0, 1], [0.1, 0.1, 0.1, math.nan], 3), "stddev")
    for _ in range(5):
        state = merged(3, state, state)
    assert values(state, "stddev") == [0.0, None, None]
