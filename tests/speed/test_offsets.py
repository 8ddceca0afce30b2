from __future__ import annotations

import pytest

from sluice.speed.offsets import Lost, OffsetBounds, TopicReplaced, starting_offsets


def test_without_a_commit_it_starts_at_the_beginning() -> None:
    bounds = OffsetBounds("id", {0: 0, 1: 40}, {0: 10, 1: 50})
    assert starting_offsets("logs", {}, bounds) == ({"0": 0, "1": 40}, [])


def test_it_goes_on_where_the_last_commit_ended_and_reads_new_partitions_whole() -> None:
    bounds = OffsetBounds("id", {0: 0, 1: 0, 2: 0}, {0: 10, 1: 50, 2: 5})
    assert starting_offsets("logs", {"0": 10, "1": 7}, bounds) == ({"0": 10, "1": 7, "2": 0}, [])


def test_offsets_that_left_kafka_are_named() -> None:
    bounds = OffsetBounds("id", {0: 30, 1: 0}, {0: 99, 1: 50})
    start, lost = starting_offsets("logs", {"0": 10, "1": 7}, bounds)
    assert start == {"0": 30, "1": 7}
    assert lost == [Lost(0, 10, 30)]
    assert "offsets 10 to 29 left Kafka" in str(lost[0])


def test_a_topic_that_is_shorter_than_what_was_counted_is_refused() -> None:
    with pytest.raises(TopicReplaced, match="partition 0 ends at 9, counted up to 10"):
        starting_offsets("logs", {"0": 10}, OffsetBounds("id", {0: 0}, {0: 9}))
