from __future__ import annotations

import pytest

from sluice.archive.chain import EmptyLink, GapInArchive, Link, OverlapInArchive, check


def link(first: int, following: int) -> Link:
    return Link(first, following, f"/raw/logs/id/2/{first:020d}.parquet")


def test_an_empty_archive_begins_at_zero() -> None:
    assert check("logs", 2, []) == 0


def test_files_that_follow_each_other_end_where_the_last_one_ends() -> None:
    assert check("logs", 2, [link(30, 31), link(0, 10), link(10, 30)]) == 31


def test_the_oldest_file_may_begin_anywhere() -> None:
    assert check("logs", 2, [link(10, 30), link(30, 40)]) == 40


def test_a_gap_is_refused_by_topic_partition_both_files_and_the_remedy() -> None:
    with pytest.raises(GapInArchive) as refused:
        check("logs", 2, [link(0, 10), link(12, 30)])
    message = str(refused.value)
    for part in (
        "topic 'logs', partition 2",
        "offsets 10 to 11 are missing",
        link(0, 10).path,
        link(12, 30).path,
        "--topic logs --declare-lost 2:10",
    ):
        assert part in message


def test_an_overlap_is_refused_and_says_which_offsets_are_double() -> None:
    with pytest.raises(OverlapInArchive, match="offsets 20 to 24 are both in") as refused:
        check("logs", 2, [link(0, 10), link(10, 30), link(20, 25), link(30, 40)])
    assert link(20, 25).path in str(refused.value)
    assert "out of the directory" in str(refused.value)


def test_a_file_that_covers_nothing_is_refused() -> None:
    with pytest.raises(EmptyLink, match="covers no offset"):
        check("logs", 2, [link(0, 10), link(10, 10)])
