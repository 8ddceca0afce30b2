from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.archive.contents import RecordCount
from tests.archive.local_archive import batch


def counted(*parts: tuple[list[int], list[int]]) -> RecordCount:
    found = RecordCount()
    for offsets, places in parts:
        found.add(pa.Table.from_batches([batch(offsets, [b"x"] * len(offsets), places)]))
    return found


def test_records_are_counted_over_tables() -> None:
    found = counted(([5, 5, 6], [0, 1, 0]), ([6, 9], [1, 0]), ([], []))
    assert (found.sound, found.lines, found.records, found.first, found.next) == (True, 5, 3, 5, 10)


@pytest.mark.parametrize(
    "parts",
    [
        [([5], [1])],  # a record without its beginning
        [([5, 5], [0, 2])],
        [([5], [0]), ([5], [0])],  # the same record twice
        [([5], [0]), ([4], [0])],
        [([5], [0]), ([6], [1])],
    ],
)
def test_records_that_are_not_whole_or_out_of_order_are_not_sound(
    parts: list[tuple[list[int], list[int]]],
) -> None:
    assert not counted(*parts).sound


def test_nothing_is_sound() -> None:
    assert (counted().sound, counted().records) == (True, 0)
