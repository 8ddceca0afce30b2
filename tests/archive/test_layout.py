from __future__ import annotations

from sluice.archive import layout
from sluice.runtime.settings import Settings


def test_a_name_says_the_first_offset_and_sorts_by_it() -> None:
    names = [layout.file_name(first) for first in (0, 9, 10, 2**40)]
    assert names == sorted(names)
    assert [layout.first_of(name) for name in names] == [0, 9, 10, 2**40]


def test_a_merged_file_says_where_it_ends_and_stands_behind_the_one_that_begins_there() -> None:
    name = layout.merged_name(9, 2**40)
    assert (layout.first_of(name), layout.next_of(name)) == (9, 2**40)
    assert layout.next_of(layout.file_name(9)) is None
    assert layout.name_in(f"/sluice/raw/logs/id/0/{name}") == name


def test_a_file_in_which_lines_were_erased_has_the_number_of_its_revision() -> None:
    name = layout.merged_name(9, 20, 3)
    assert name == "00000000000000000009-00000000000000000020-3.parquet"
    assert (layout.first_of(name), layout.next_of(name), layout.revision_of(name)) == (9, 20, 3)
    assert [layout.revision_of(each) for each in (layout.merged_name(9, 20), layout.file_name(9), "x")] == [
        0
    ] * 3
    assert layout.is_damaged(layout.damaged_name(9, 1))
    assert not layout.is_damaged(name)


def test_temporary_and_foreign_names_claim_nothing() -> None:
    temporary = layout.temporary_name("00c0ffee", 3, 500)
    assert temporary.startswith(".")
    for name in (temporary, "_SUCCESS", "1.parquet", "00000000000000000001.parquet.crc"):
        assert layout.first_of(name) is None
    assert layout.writer_of(temporary) == "00c0ffee"
    assert layout.writer_of(layout.file_name(500)) is None


def test_each_incarnation_of_a_topic_has_its_own_directory() -> None:
    settings = Settings(instance="test")
    one = layout.partition_directory(settings, "logs", "id-1", 0)
    assert one == "/sluice/raw/logs/id-1/0"
    assert one != layout.partition_directory(settings, "logs", "id-2", 0)
