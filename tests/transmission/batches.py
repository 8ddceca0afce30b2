"""Kafka's record batches, byte by byte: also those that no producer would make."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Sequence

import lz4.frame
import pyarrow as pa
import zstandard
from crc32c import crc32c

from sluice.transmission.unpacking import XERIAL

Header = tuple[bytes, bytes | None]
TIME = 1_700_000_000_000


def varint(value: int) -> bytes:
    rest, made = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        made.append(0x80 | rest & 0x7F)
        rest >>= 7
    return bytes([*made, rest])


def field(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(
    delta: int, value: bytes | None, headers: Sequence[Header] = (), *, count: int | None = None
) -> bytes:
    """A record without a key; `count`: the headers that it claims."""
    said = varint(len(headers) if count is None else count)
    fields = b"\0" + varint(0) + varint(delta) + varint(-1) + field(value) + said
    fields += b"".join(field(name) + field(own) for name, own in headers)
    return varint(len(fields)) + fields


def batch(
    base: int,
    records: Sequence[bytes],
    *,
    codec: int = 0,
    packed: Callable[[bytes], bytes] | None = None,
    count: int | None = None,
    offsets: int | None = None,
    checksum: int | None = None,
    version: int = 2,
    attributes: int = 0,
    time: int = TIME,
) -> bytes:
    """A batch of these records; what is given is claimed instead of what is true."""
    body = (packed or CODECS[codec])(b"".join(records))
    head = struct.pack(
        ">hiqqqhii",
        codec | attributes,
        (len(records) if offsets is None else offsets) - 1,
        time,
        time,
        -1,
        -1,
        -1,
        len(records) if count is None else count,
    )
    own = crc32c(head + body) if checksum is None else checksum
    rest = struct.pack(">ibI", 0, version, own) + head + body
    return struct.pack(">qi", base, len(rest)) + rest


def lines(base: int, *values: bytes, codec: int = 0) -> bytes:
    """A batch of good records."""
    return batch(base, [record(n, value) for n, value in enumerate(values)], codec=codec)


def snappy(data: bytes) -> bytes:
    packed: bytes = pa.Codec("snappy").compress(data, asbytes=True)
    return packed


def xerial(data: bytes, size: int = 32 << 10) -> bytes:
    """Snappy as Java's stream writes it, in blocks."""
    blocks = [snappy(data[at : at + size]) for at in range(0, len(data), size)]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return XERIAL + struct.pack(">ii", 1, 1) + framed


CODECS: dict[int, Callable[[bytes], bytes]] = {
    0: bytes,
    1: lambda data: gzip.compress(data, 6, mtime=0),
    2: xerial,
    3: lz4.frame.compress,
    4: zstandard.compress,
}
NAMES = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}

#: What no reader of a limit of 1 MiB can read. Each stands for the offsets 3 to 5; good lines are before and
#: after it. With it, what is said of it.
POISON: dict[str, tuple[bytes, str]] = {
    "a wrong checksum": (batch(3, [record(n, b"x") for n in range(3)], checksum=1), "checksum"),
    "an unknown codec": (batch(3, [record(n, b"x") for n in range(3)], packed=bytes, codec=6), "codec 6"),
    "an unknown format": (batch(3, [record(n, b"x") for n in range(3)], version=3), "format 3"),
    "2^31 records": (batch(3, [record(0, b"x")], count=(1 << 31) - 1, offsets=3), "2,147,483,647 records"),
    "fewer than no records": (batch(3, [record(0, b"x")], count=-1, offsets=3), "-1 records"),
    "gzip that ends early": (
        batch(3, [b"x" * 99], codec=1, offsets=3, packed=lambda d: CODECS[1](d)[:-9]),
        "early",
    ),
    "snappy that is none": (batch(3, [b"x"], codec=2, offsets=3, packed=lambda _: b"\x05abc"), "snappy"),
    "lz4 that is none": (batch(3, [b"x"], codec=3, offsets=3, packed=lambda _: b"x" * 50), "lz4"),
    "zstd that is none": (batch(3, [b"x"], codec=4, offsets=3, packed=lambda _: b"x" * 50), "zstd"),
    **{
        f"{NAMES[codec]} of 2 MiB": (
            batch(3, [record(0, bytes(2 << 20))], codec=codec, offsets=3),
            "1,048,576",
        )
        for codec in (1, 2, 3, 4)
    },
    "raw snappy of 2 MiB": (batch(3, [bytes(2 << 20)], codec=2, offsets=3, packed=snappy), "1,048,576"),
    "a record longer than its batch": (batch(3, [varint(1 << 40)], count=1, offsets=3), "outside its batch"),
    "a record of fewer than no bytes": (batch(3, [varint(-5)], count=1, offsets=3), "outside its batch"),
    "a number without an end": (batch(3, [b"\xff" * 20], count=1, offsets=3), "64 bits"),
    "records that are missing": (batch(3, [], count=3, offsets=3), "early"),
}

#: A record that cannot be read although its neighbours in the batch can.
ALONE: dict[str, bytes] = {
    "a header's name that is not UTF-8": record(1, b"x", [(b"\xff\xfe", b"v")]),
    "headers that are missing": record(1, b"x", count=7),
    "fewer than no headers": record(1, b"x", count=-1),
    "2^62 headers": record(1, b"x", count=1 << 62),
    "a header of -7 bytes": varint(12) + b"\0\0\x02\x01\x02x\x02" + varint(-7) + b"abcd",
    "a value longer than the record": varint(9) + b"\0\0\x02\x01" + varint(1 << 30),
    "bytes behind its headers": varint(10) + b"\0\0\x02\x01\x02x\0abc",
    "no bytes": varint(0),
    "an offset of before": record(0, b"x"),
    "an offset of after": record(2, b"x"),
    "an offset far behind": record(1 << 40, b"x"),
    "an offset below none": record(-9, b"x"),
}
