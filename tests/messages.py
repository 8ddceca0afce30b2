"""Kafka records as both layers get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluice.transmission.identity import records
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice_lab.bench.headers import Headers, to_headers
from tests.identities import KEY

ARRIVAL = 1_700_000_000_000


@dataclass
class Message:
    """The part of a record that a consumer hands over."""

    offset: int
    value: bytes | None
    headers: Headers
    timestamp: int = ARRIVAL
    unreadable: str | None = None
    last: int | None = None


def block(offset: int, file: str, begin: int, lines: Sequence[bytes], key: bytes = KEY) -> Message:
    """A record of consecutive lines of a file of host web1, the first of which begins at `begin`."""
    body = b"\n".join(lines)
    return Message(offset, body, to_headers("web1", file, begin, body, key))


def decoded(partition: int, messages: Sequence[Message]) -> pa.RecordBatch:
    """The lines of a partition's messages, in one batch."""
    batches = list(records(partition, messages, KEY))
    return pa.concat_batches([*batches, pa.RecordBatch.from_pylist([], LINE_SCHEMA)])


def unsigned(lines: Sequence[bytes], partition: int = 0, first: int = 0) -> pa.RecordBatch:
    """Records without headers, so each has an identity of its own."""
    return decoded(partition, [Message(first + n, line, [], 0) for n, line in enumerate(lines)])


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]
