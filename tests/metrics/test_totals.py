"""The totals of a large batch, made in one loop, against the accumulators of a small one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics import Batch, Numbers, base
from tests.metrics.states import added, numeric

METRICS = ("count", "missing", "sum", "avg", "min", "max")
MEASURES = st.sampled_from([0.0, -0.0, 1.0, -3.0, 0.1, -2.5, 1e15, 2.0**43, 2.0**43 + 1, 1e100, math.nan])


@given(st.lists(st.tuples(st.integers(0, 4), MEASURES), max_size=40), st.booleans())
def test_large_batches_and_small_ones_have_the_same_states(rows: list[tuple[int, float]], some: bool) -> None:
    groups, values = [g for g, _ in rows], [v for _, v in rows]
    counted = np.arange(0, len(rows), 2) if some else None
    own = groups[::2] if some else groups
    small = added(numeric(own, values, 5, counted), *METRICS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "COMPILED_ROWS", 1)
        batch = numeric(own, values, 5, counted)
        if own:
            assert batch.totals is not None
        large = added(batch, *METRICS)
    assert {name: repr(column.to_pylist()) for name, column in small.items()} == {
        name: repr(column.to_pylist()) for name, column in large.items()
    }


def test_sums_that_might_overflow_are_left_to_the_digits() -> None:
    values = np.full(1 << 20, 2.0**43)
    assert Batch(np.zeros(len(values), np.int64), 1, Numbers(values)).totals is None


def test_what_a_measure_is_can_be_told_from_its_distinct_values() -> None:
    distinct = np.array([1.0, 2.5, np.nan])
    values = distinct[np.array([0, 1, 2, 0])]
    for one in (Numbers(values), Numbers(values, distinct)):
        assert not one.complete
        assert one.largest == 1.0
        assert one.fractional is not None
        assert one.fractional.tolist() == [False, True, False, False]
    assert Numbers(values[[0, 3]], distinct[:1]).complete
    assert Numbers(values[[0, 3]], distinct[:1]).fractional is None
