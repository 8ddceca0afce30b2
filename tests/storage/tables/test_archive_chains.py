"""Sums over chains of archive files; that they follow the files is tested with `archive.coverage`."""

from __future__ import annotations

from sluice.storage.tables.archive_chains import ChainSums, ends, sums
from tests.archive.local_archive import LocalArchive
from tests.tasks.database import sqlite


def chain(topic_id: str, partition: int, first: int, following: int, offsets: int) -> ChainSums:
    return ChainSums(topic_id, partition, offsets, offsets, offsets, first, following)


def test_a_chain_with_a_gap_is_not_whole_and_a_partition_ends_where_its_last_chain_does() -> None:
    old, gap, new = chain("a", 0, 5, 9, 4), chain("b", 1, 0, 9, 8), chain("b", 0, 20, 30, 10)
    assert (old.whole, gap.whole, new.whole) == (True, False, True)
    assert ends([old, gap, new]) == ends([new, old, gap]) == {0: 30, 1: 9}


def test_sums_are_of_one_topic_and_none_without_files(tmp_path: object) -> None:
    archive = LocalArchive(tmp_path)  # type: ignore[arg-type]
    for records in (3, 4):
        archive.add(records)
    with archive.database.connect() as connection:
        assert sums(connection, "logs") == [ChainSums("id", 3, 7, 14, 7, 0, 7)]
        assert sums(connection, "others") == []
    with sqlite().connect() as connection:
        assert sums(connection, "logs") == []
