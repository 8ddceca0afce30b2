"""A record's identity in Kafka: the headers host, src_file and src_offset, and mac, which proves them.

They name the first byte of the record's block of lines; the identity of each line follows (`blocks.split`).
Flume delivers at least once. The copies of a line have the same identity, even if they come in blocks that
begin and end elsewhere.

A record with an identity that it cannot prove is *forged*. It loses the identity, so that it cannot take the
place of the real lines, and it becomes a dead letter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.transmission.blocks import split
from sluice.transmission.decoding import NAMES
from sluice.transmission.line_schema import (
    FORGED,
    HOST,
    LAST_OFFSET,
    LINE_IN_RECORD,
    LINE_SCHEMA,
    SRC_FILE,
    SRC_OFFSET,
    UNREADABLE,
)
from sluice.transmission.mac import genuine

DECIMAL = r"^[0-9]{1,18}$"
#: Bytes of a host's or a file's name: topic, host and file form a key of the ledger of at most 2,704 bytes.
LONGEST = 1_000
#: Bytes of records that are decoded at once: an Arrow array of bytes may have 2 GiB.
DECODED_BYTES = 32 << 20


class Message(Protocol):
    """The part of a `decoding.Record` that is read here."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...
    @property
    def unreadable(self) -> str | None: ...
    @property
    def last(self) -> int | None: ...


def held(message: Message) -> int:
    """How many bytes the message has: a header may have as many as a value."""
    return len(message.value or b"") + sum([len(value or b"") for _, value in message.headers])


def following(message: Message) -> int:
    """The offset after the message, or after the range that it stands for."""
    return (message.offset if message.last is None else message.last) + 1


def records(partition: int, messages: Sequence[Message], key: bytes) -> Iterator[pa.RecordBatch]:
    """The lines of one partition's messages as LINE_SCHEMA batches, in their order.

    A missing header, or an offset that is not a decimal number, gives a null: such a record has no identity
    but is still a line. If a header is repeated, its first value is used. A record without a value is an
    empty line.
    """
    for some in _portions(messages):
        yield from split(_whole(partition, some, key))


def moved_on(lines: pa.RecordBatch, shift: int) -> pa.RecordBatch:
    """The lines with other offsets: `shift` is added to each (`runtime.positions`)."""
    if not shift:
        return lines
    columns = [
        pc.add(column, shift) if name in ("offset", LAST_OFFSET) else column
        for name, column in zip(lines.schema.names, lines.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=lines.schema)


def _portions(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages in portions of DECODED_BYTES, or of one message that is longer."""
    begin = size = 0
    for at, message in enumerate(messages):
        length = held(message)
        if size + length > DECODED_BYTES and at > begin:
            yield messages[begin:at]
            begin, size = at, 0
        size += length
    if begin < len(messages):
        yield messages[begin:]


def _whole(partition: int, messages: Sequence[Message], key: bytes) -> pa.RecordBatch:
    """The messages as LINE_SCHEMA with a row a record."""
    columns = {
        "partition": pa.array(np.full(len(messages), partition, np.int32)),
        "offset": pa.array([message.offset for message in messages], pa.int64()),
        "arrival": pa.array([message.timestamp for message in messages], pa.int64()),
        "line": pa.array([message.value or b"" for message in messages], pa.binary()),
        LINE_IN_RECORD: pa.array(np.zeros(len(messages), np.int32)),
        UNREADABLE: pa.array([message.unreadable for message in messages], pa.string()),
        LAST_OFFSET: pa.array([message.last for message in messages], pa.int64()),
    }
    columns |= identities(_headers(messages), columns["line"], key)
    return pa.RecordBatch.from_arrays([columns[name] for name in LINE_SCHEMA.names], schema=LINE_SCHEMA)


def identities(headers: Mapping[str, pa.Array], line: pa.Array, key: bytes) -> dict[str, pa.Array]:
    """The columns HOST, SRC_FILE, SRC_OFFSET and FORGED of records with these headers (NAMES).

    The headers and the lines are binary; a header that is missing is null.
    """
    columns = {
        HOST: header_text(headers[HOST]),
        SRC_FILE: header_text(headers[SRC_FILE]),
        SRC_OFFSET: header_number(headers[SRC_OFFSET]),
    }
    claimed = np.logical_and.reduce(
        [column.is_valid().to_numpy(zero_copy_only=False) for column in columns.values()]
    )
    *identity, macs, text = (*(headers[name] for name in NAMES), line)
    if not claimed.all():
        *identity, macs, text = (each.filter(pa.array(claimed)) for each in (*identity, macs, text))
    forged = np.zeros(len(line), bool)
    forged[claimed] = ~genuine(key, identity, text, macs)
    marks = pa.array(forged)
    if forged.any():
        columns = {
            name: pc.if_else(marks, pa.scalar(None, column.type), column) for name, column in columns.items()
        }
    return columns | {FORGED: marks}


def _headers(messages: Sequence[Message]) -> dict[str, pa.Array]:
    """The headers NAMES of all messages, each as a column of bytes with nulls."""
    each = [dict(reversed(message.headers)) for message in messages]
    at = {name: [found.get(name) for found in each] for name in NAMES}
    return {name: pa.array(values, pa.binary()) for name, values in at.items()}


def header_text(values: pa.Array) -> pa.Array:
    """The binary values of a header as text that PostgreSQL accepts, null where there is none.

    Bytes that are not UTF-8 become \\xNN, and so does NUL. If a text is longer than `LONGEST` bytes, its end
    is replaced by a hash of the whole text, so different texts stay different.
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
