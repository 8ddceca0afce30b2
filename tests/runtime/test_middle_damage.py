"""Who reads of damage finds the file, and what to do."""

from __future__ import annotations

from pathlib import Path

from sluice.runtime.middle_damage import MiddleDamage, first_whole


def test_it_names_the_file_and_both_ways_out() -> None:
    damage = MiddleDamage(Path("/x/log-10"), 4096, 5_000_000, 4097)
    assert str(damage).startswith(
        "/x/log-10 is damaged at byte 4,096, and from byte 5,000,000 on it is whole"
    )
    assert "Put the file back from a copy" in str(damage)
    assert "run `truncate -s 4097 /x/log-10`" in str(damage)
    assert (damage.bad, damage.whole) == (4096, 5_000_000)


def test_the_first_whole_record_is_found_at_any_byte() -> None:
    data = b"##a#" + b"#b-" * 3 + b"#c!"
    looked: list[int] = []

    def whole(at: int, end: int) -> bool:
        looked.append(at)
        return data[at:end].endswith(b"!")

    assert first_whole(data, b"#[a-c]", lambda at: at + 3, whole) == 13
    assert looked == [1, 4, 7, 10, 13]
    assert first_whole(data, b"#[a-c]", lambda at: at + 3, whole, 14) is None
    assert first_whole(data, b"#[a-c]", lambda at: at + 4 if at == 13 else 0, whole) is None


def test_what_only_looks_like_records_costs_no_more_than_the_data_do() -> None:
    data, looked = b"#" * 10_000, list[int]()

    def whole(at: int, end: int) -> bool:
        looked.append(end - at)
        return False

    assert first_whole(data, b"#", lambda at: len(data), whole) is not None
    assert sum(looked) <= 8 * len(data)
