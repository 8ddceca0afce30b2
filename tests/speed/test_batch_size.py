"""How large a batch is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.speed.batch_size import GROWTH, LARGEST_RECORD, BatchSize

LIMIT = 64 << 20
SAFE = LIMIT // LARGEST_RECORD

offsets = st.dictionaries(st.sampled_from("0123"), st.integers(0, 10**9), max_size=4)


def waiting(start: dict[str, int], end: dict[str, int]) -> int:
    return sum(end.values()) - sum(start.values())


@given(position=offsets, more=offsets)
def test_a_batch_lies_between_the_position_and_the_ends(
    position: dict[str, int], more: dict[str, int]
) -> None:
    ends = {name: position.get(name, 0) + count for name, count in more.items()} | {
        name: offset for name, offset in position.items() if name not in more
    }
    found = BatchSize(LIMIT).end(position, ends)
    assert found.keys() == ends.keys()
    for name, end in found.items():
        start = position.get(name, 0)
        assert start <= end <= ends[name]
        assert end > start or ends[name] == start  # every partition gets on
    assert waiting(position, found) <= SAFE + len(ends)


def test_before_anything_is_known_records_are_taken_for_the_largest() -> None:
    assert BatchSize(LIMIT).end({}, {"0": 10**6}) == {"0": SAFE}


def test_small_records_let_a_batch_grow_step_by_step_up_to_the_limit() -> None:
    size, at = BatchSize(LIMIT), 0
    taken = []
    for _ in range(8):
        end = size.end({"0": at}, {"0": 10**9})["0"]
        taken.append(end - at)
        size.counted(end - at, 150 * (end - at))
        at = end
    assert taken[:3] == [SAFE, GROWTH * SAFE, GROWTH**2 * SAFE]
    assert taken[-1] == LIMIT // 150


def test_large_records_after_small_ones_make_the_next_batch_safe_again() -> None:
    size = BatchSize(LIMIT)
    size.counted(100_000, 100_000 * 150)
    size.counted(50_000, 50_000 * LARGEST_RECORD)
    assert size.end({}, {"0": 10**9}) == {"0": SAFE}


def test_a_batch_that_failed_is_tried_smaller_and_grows_again() -> None:
    size = BatchSize(LIMIT)
    for _ in range(3):
        size.failed()
    assert size.end({}, {"0": 10**6}) == {"0": SAFE // 8}
    for _ in range(30):
        size.failed()
    assert size.end({}, {"0": 10**6}) == {"0": 1}
    for _ in range(11):
        size.counted(1, LARGEST_RECORD)
    assert size.end({}, {"0": 10**6}) == {"0": SAFE}


def test_a_log_that_ends_before_the_position_is_refused() -> None:
    with pytest.raises(ValueError, match="partition 1 ends at 3"):
        BatchSize(LIMIT).end({"0": 5, "1": 4}, {"0": 5, "1": 3})
