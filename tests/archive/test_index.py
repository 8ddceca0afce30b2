"""What the index's entry of a day says: lines, and when they happened."""

from __future__ import annotations

import pytest

from sluice.archive.index import _has, _lines


@pytest.mark.parametrize(
    ("said", "since", "until", "has"),
    [
        ([9, 100, 200, 500, 500], 0, 100, False),
        ([9, 100, 200, 500, 500], 0, 101, True),
        ([9, 100, 200, 500, 500], 200, 300, True),
        ([9, 100, 200, 500, 500], 201, 500, False),
        ([9, 100, 200, 500, 500], 300, 501, True),
        ([9, 100, 200, 500, 500], 501, 900, False),
        (9, 300, 400, True),  # of an older file
    ],
)
def test_a_file_is_read_if_a_stretch_of_its_lines_reaches_into_the_period(
    said: int | list[int], since: int, until: int, has: bool
) -> None:
    assert _has(said, since, until) == has
    assert _lines(said) == 9
