"""A line's identity in Kafka: headers host, src_file, src_offset, and the key that keeps its doubles
together.

Flume delivers at least once. A line that comes twice has the same headers and, because the key is a function
of the line alone, meets its double in the same partition.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.transmission.records import HOST, RECORDS, SRC_FILE, SRC_OFFSET

DECIMAL = r"^[0-9]{1,18}$"
#: Bytes of a host's or a file's name: topic, host and file are a key of the ledger, of 2,704 bytes at most.
LONGEST = 1_000

Headers = list[tuple[str, bytes]]


class Message(Protocol):
    """What is read of a kafka-python ConsumerRecord."""

    offset: int
    timestamp: int
    value: bytes | None
    headers: Headers


def records(partition: int, messages: Sequence[Message]) -> pa.RecordBatch:
    """The messages of one partition as a RECORDS batch, in their order.

    Exactly what `transmission.lines.decode` makes of them online: a header that is missing or no decimal
    number leaves a null (such a line has no identity but stays a line), of a repeated header the first value
    holds, and a record without a value is an empty line.
    """
    found = _headers(messages)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(len(messages), partition, np.int32)),
            pa.array([message.offset for message in messages], pa.int64()),
            pa.array([message.timestamp for message in messages], pa.int64()),
            header_text(found[HOST]),
            header_text(found[SRC_FILE]),
            header_number(found[SRC_OFFSET]),
            pa.array([message.value or b"" for message in messages], pa.binary()),
        ],
        schema=RECORDS,
    )


def _headers(messages: Sequence[Message]) -> dict[str, pa.Array]:
    """The three headers of all messages, each as a column of bytes with nulls."""
    flat = list(chain.from_iterable(message.headers for message in messages))
    layout = [name for name, _ in messages[0].headers] if messages else []
    names = [name for name, _ in flat]
    at: dict[str, list[bytes | None]]
    if {HOST, SRC_FILE, SRC_OFFSET} <= set(layout) and names == layout * len(messages):
        # The usual case: the same headers in the same order everywhere.
        values: list[bytes | None] = [value for _, value in flat]
        at = {name: values[layout.index(name) :: len(layout)] for name in (HOST, SRC_FILE, SRC_OFFSET)}
    else:
        each = [dict(reversed(message.headers)) for message in messages]
        at = {name: [found.get(name) for found in each] for name in (HOST, SRC_FILE, SRC_OFFSET)}
    return {name: pa.array(values, pa.binary()) for name, values in at.items()}


def header_text(values: pa.Array) -> pa.Array:
    """The binary values of a header as text that PostgreSQL takes, null where there is none.

    Bytes that are not UTF-8 become \\xNN, and so does NUL. The end of a text over `LONGEST` bytes gives way
    to a hash of the whole, so different texts stay different.
    """
    coded = values.dictionary_encode()  # a batch has few hosts and few files
    words = [None if word is None else _shown(word) for word in coded.dictionary.to_pylist()]
    return pa.array(words, pa.string()).take(coded.indices)


def _shown(word: bytes) -> str:
    text = word.decode("utf-8", "backslashreplace").replace("\0", "\\x00")
    if len(shown := text.encode()) <= LONGEST:
        return text
    digest = hashlib.sha256(word).hexdigest()
    return f"{shown[: LONGEST - len(digest) - 1].decode(errors='ignore')}#{digest}"


def header_number(values: pa.Array) -> pa.Array:
    """Non-negative decimals of up to 18 digits as int64; null for anything else."""
    plain = pc.fill_null(pc.match_substring_regex(values, DECIMAL), False)
    return pc.if_else(plain, values, pa.scalar(None, values.type)).cast(pa.string()).cast(pa.int64())
