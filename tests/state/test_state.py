from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.state.state import BYTES_A_GET, portions
from sluice.storage.commits import Pointer


def pointer(number: int, size: int) -> Pointer:
    return Pointer(f"1v1/{number}/1/0", 1, 1, number, 1, 0, 1, "me", size)


@given(st.lists(st.integers(1, BYTES_A_GET + 1), max_size=30))
def test_blocks_are_read_in_portions_that_thrift_can_carry(sizes: list[int]) -> None:
    pointers = [pointer(number, size) for number, size in enumerate(sizes)]
    parts = list(portions(pointers))
    assert [each for part in parts for each in part] == pointers
    assert all(len(part) == 1 or sum(each.bytes for each in part) <= BYTES_A_GET for part in parts)
