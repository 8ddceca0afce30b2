"""How large a batch is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.speed.batch_size import GROWTH, LARGEST_RECORD, BatchSize

LIMIT = 64 << 20
SAFE = LIMIT // LARGEST_RECORD

offsets = st.dictionaries(st.sampled_from("0123"), st.integers(0, 10**9), max_size=4)


@given(waiting=offsets)
def test_a_batch_takes_some_of_what_waits_and_of_every_partition(waiting: dict[str, int]) -> None:
    found = BatchSize(LIMIT).share(waiting)
    assert found.keys() == waiting.keys()
    for name, taken in found.items():
        assert 0 <= taken <= waiting[name]
        assert taken or not waiting[name]  # every partition gets on
    assert sum(found.values()) <= SAFE + len(waiting)


def test_before_anything_is_known_records_are_taken_for_the_largest() -> None:
    assert BatchSize(LIMIT).share({"0": 10**6}) == {"0": SAFE}


def test_small_records_let_a_batch_grow_step_by_step_up_to_the_limit() -> None:
    size, at = BatchSize(LIMIT), 0
    taken = []
    for _ in range(8):
        end = at + size.share({"0": 10**9 - at})["0"]
        taken.append(end - at)
        size.counted(end - at, 150 * (end - at))
        at = end
    assert taken[:3] == [SAFE, GROWTH * SAFE, GROWTH**2 * SAFE]
    assert taken[-1] == LIMIT // 150


def test_large_records_after_small_ones_make_the_next_batch_safe_again() -> None:
    size = BatchSize(LIMIT)
    size.counted(100_000, 100_000 * 150)
    size.counted(50_000, 50_000 * LARGEST_RECORD)
    assert size.share({"0": 10**9}) == {"0": SAFE}


def test_a_batch_that_failed_is_tried_smaller_and_grows_again() -> None:
    size = BatchSize(LIMIT)
    for _ in range(3):
        size.failed()
    assert size.share({"0": 10**6}) == {"0": SAFE // 8}
    for _ in range(30):
        size.failed()
    assert size.share({"0": 10**6}) == {"0": 1}
    for _ in range(11):
        size.counted(1, LARGEST_RECORD)
    assert size.share({"0": 10**6}) == {"0": SAFE}
