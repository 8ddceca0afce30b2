"""Kafka records as both layers get them: kafka-python's messages, and Spark's Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluice.transmission.identity import Headers
from sluice.transmission.lines import KAFKA_COLUMNS
from tests.identities import KEY, to_headers

ARRIVAL = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@dataclass
class Message:
    """The part of a record that kafka-python hands over."""

    offset: int
    value: bytes | None
    headers: Headers
    timestamp: int = ARRIVAL


def block(offset: int, file: str, begin: int, lines: Sequence[bytes], key: bytes = KEY) -> Message:
    """A record of consecutive lines of a file of host web1, the first of which begins at `begin`."""
    body = b"\n".join(lines)
    return Message(offset, body, to_headers("web1", file, begin, body, key))


def from_spark(partition: int, messages: Sequence[Message]) -> pa.RecordBatch:
    """The messages of a partition as Spark's Kafka source gives them (`lines.KAFKA_COLUMNS`)."""
    headers = [[{"key": key, "value": value} for key, value in each.headers] for each in messages]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition] * len(messages), pa.int32()),
            pa.array([each.offset for each in messages], pa.int64()),
            pa.array([each.timestamp for each in messages], pa.int64()),
            pa.array(headers, HEADERS),
            pa.array([each.value for each in messages], pa.binary()),
        ],
        names=list(KAFKA_COLUMNS),
    )


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]
