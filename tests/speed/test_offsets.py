"""Where counting begins, and what is gone before it."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.runtime.positions import Era, PartitionLog, position_at
from sluice.speed.offsets import Lost, OffsetBounds, starting_positions

ONE = PartitionLog((Era(0, "id", 0, 0),))


def bounds(first: Mapping[int, int], following: Mapping[int, int], **logs: PartitionLog) -> OffsetBounds:
    """logs: of the partitions p0, p1 ... whose log has several eras."""
    there = {number: logs.get(f"p{number}", ONE) for number in first}
    return OffsetBounds("id", there, first, following)


def test_without_a_commit_it_starts_at_the_beginning() -> None:
    assert starting_positions({}, bounds({0: 0, 1: 40}, {0: 10, 1: 50})) == ({"0": 0, "1": 40}, [])


def test_it_goes_on_where_the_last_commit_ended_and_reads_new_partitions_whole() -> None:
    found = bounds({0: 0, 1: 0, 2: 0}, {0: 10, 1: 50, 2: 5})
    assert starting_positions({"0": 10, "1": 7}, found) == ({"0": 10, "1": 7, "2": 0}, [])


def test_offsets_that_left_kafka_are_named() -> None:
    start, lost = starting_positions({"0": 10, "1": 7}, bounds({0: 30, 1: 0}, {0: 99, 1: 50}))
    assert start == {"0": 30, "1": 7}
    assert lost == [Lost(0, 10, 30)]
    assert "offsets 10 to 29 left Kafka" in str(lost[0])


def test_a_log_that_was_cut_off_is_read_on_from_the_cut() -> None:
    log = PartitionLog((Era(0, "id", 0, 0), Era(1, "id", 8, 3, 10)))
    counted, behind = ({"0": at} for at in (10, 5))
    start, lost = starting_positions(counted, bounds({0: 0}, {0: 20}, p0=log))
    assert (start, lost) == (counted, [Lost(0, 8, 10, counted=True)])
    assert next(log.pieces(10, log.position(20))).start == 8
    assert "offsets 8 to 9 were counted, and Kafka lost them since" in str(lost[0])
    start, lost = starting_positions(behind, bounds({0: 0}, {0: 20}, p0=log))
    assert (start, lost) == (behind, [Lost(0, 8, 10)])


def test_a_topic_that_was_made_again_is_read_from_its_beginning() -> None:
    log = PartitionLog((Era(0, "id", 0, 0), Era(1, "new", 0, 0, 10)))
    start, lost = starting_positions({"0": 10}, bounds({0: 0}, {0: 4}, p0=log))
    assert (start, lost) == ({"0": position_at(1, 0)}, [Lost(0, 0, 10, counted=True)])


def test_a_partition_that_the_topic_has_no_more_keeps_its_position() -> None:
    committed = {"0": 10, "1": 7}
    log = PartitionLog((Era(0, "id", 0, 0), Era(1, "new", 0, 0, 10)))
    start, lost = starting_positions(committed, bounds({0: 0}, {0: 4}, p0=log))
    assert start == {"0": position_at(1, 0), "1": 7}
    assert lost == [Lost(0, 0, 10, counted=True)]
    assert committed == {"0": 10, "1": 7}
    both = PartitionLog((Era(0, "id", 0, 0), Era(1, "third", 0, 0, 7)))  # it has it once more
    start, _ = starting_positions(start, bounds({1: 0}, {1: 3}, p1=both))
    assert start == {"0": position_at(1, 0), "1": position_at(1, 0)}
