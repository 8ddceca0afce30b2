from __future__ import annotations

from datetime import date
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sluice.state.portions import BYTES_A_GET, portions, read_portions
from sluice.storage.tables.backfills import BackfillPointer

sizes = st.lists(st.integers(1, BYTES_A_GET + 1), max_size=30)


@given(sizes)
def test_blocks_are_read_in_portions_that_thrift_can_carry(sizes: list[int]) -> None:
    day = date(2015, 5, 17)
    pointers = [BackfillPointer(f"b1v1/{n}", 1, 1, day, n, 1, 0, "s:x", size) for n, size in enumerate(sizes)]
    parts = list(read_portions(pointers))
    assert [each for part in parts for each in part] == pointers
    assert all(len(part) == 1 or sum(each.bytes for each in part) <= BYTES_A_GET for part in parts)


@given(st.lists(st.integers(0, 12), max_size=30))
def test_no_portion_could_have_taken_the_next_item(sizes: list[int]) -> None:
    parts = list(portions(sizes, int, 10))
    assert all(sum(part) + following[0] > 10 for part, following in pairwise(parts))
