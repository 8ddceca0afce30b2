"""How large topics' logs are; a real broker's are looked at in tests/archive/test_trimming.py."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeLogDirsResponse

from sluice.transmission.topic_logs import sizes_in

RESULT = DescribeLogDirsResponse.DescribeLogDirsResult
TOPIC = RESULT.DescribeLogDirsTopic
PARTITION = TOPIC.DescribeLogDirsPartition


def folder(topic: str, sizes: dict[int, int]) -> Any:
    """A directory of a broker, as kafka-python gives it."""
    parts = [
        PARTITION(partition_index=number, partition_size=size, offset_lag=0, is_future_key=False)
        for number, size in sizes.items()
    ]
    return RESULT(error_code=0, log_dir="/data", topics=[TOPIC(name=topic, partitions=parts)]).to_dict()


def test_a_partitions_size_is_that_of_its_largest_copy() -> None:
    brokers = [
        {"broker": 1, "log_dirs": [folder("logs", {0: 10, 1: 20}), folder("other", {0: 99})]},
        {"broker": 2, "log_dirs": [folder("logs", {0: 12, 2: 5})]},
    ]
    assert sizes_in(brokers, "logs") == {0: 12, 1: 20, 2: 5}
    assert sizes_in(brokers, "none") == {}
