"""Batches of lines put together for the pass."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine import batches
from sluice.engine.batches import together
from tests.examples import examples


@examples(40)
@given(st.lists(st.integers(0, 9), max_size=20), st.integers(1, 20))
def test_lines_stay_in_order_and_only_the_last_batch_is_less_than_half_full(
    sizes: list[int], least: int
) -> None:
    numbers = iter(range(1_000))
    given_ = [pa.record_batch({"n": [next(numbers) for _ in range(size)]}) for size in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "PASS_LINES", least)
        found = list(together(given_))
    assert [n for batch in found for n in batch.column("n").to_pylist()] == list(range(sum(sizes)))
    assert all(2 * len(batch) >= least for batch in found[:-1])
    assert all(len(batch) for batch in found)


def test_a_batch_of_long_lines_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PASS_BYTES", 1_000)
    found = list(together(pa.record_batch({"line": ["x" * 600]}) for _ in range(5)))
    assert [len(batch) for batch in found] == [2, 2, 1]


def test_a_batch_that_is_large_already_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PASS_LINES", 10)
    given_ = [pa.record_batch({"n": list(range(size))}) for size in (9, 10, 8, 7)]
    assert all(a is b for a, b in zip(together(given_), given_, strict=True))
