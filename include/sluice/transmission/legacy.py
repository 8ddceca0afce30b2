"""The messages of Kafka's formats 0 and 1, which topics have that were written before Kafka 0.11."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from sluice.transmission.unpacking import Undecodable, unpack

#: Offset, length, checksum, format and attributes; format 1 has a time after it.
_HEAD = struct.Struct(">qiIbb")
_TIME = struct.Struct(">q")
_SIZE = struct.Struct(">i")
_CHECKED_FROM, _OVERHEAD = 16, 12
_CODEC, _STAMPED_BY_BROKER = 0x07, 0x08
ZSTD = 4  # came with format 2

#: Offset, value and time in ms.
Message = tuple[int, bytes | None, int]


def messages(data: bytes, limit: int) -> Iterator[Message]:
    """A message, or those that one with a codec has within it. Raises Unreadable before the first one."""
    offset, value, time, attributes = _read(data)
    codec = attributes & _CODEC
    if not codec:
        yield offset, value, time
        return
    if value is None or codec >= ZSTD:
        raise Undecodable(f"a message with codec {codec} has nothing in it that format 1 knows")
    inner = list(_inner(unpack(codec, value, limit)))
    # In format 1 the inner offsets count from 0, and the outer one is that of the last.
    shift = offset - inner[-1][0] if inner and data[_CHECKED_FROM] else 0
    before = None
    for place, _, _ in inner:
        if place < 0 or place + shift > offset or (before is not None and place <= before):
            raise Undecodable("the offsets of its messages do not rise")
        before = place
    for place, body, own in inner:
        yield place + shift, body, time if attributes & _STAMPED_BY_BROKER else own


def _inner(data: bytes) -> Iterator[Message]:
    at = 0
    while at < len(data):
        if len(data) - at < _HEAD.size:
            raise Undecodable("a message ends early")
        end = at + _OVERHEAD + int(_SIZE.unpack_from(data, at + 8)[0])
        if not at + _HEAD.size <= end <= len(data):
            raise Undecodable("a message ends early")
        offset, value, time, attributes = _read(data[at:end])
        if attributes & _CODEC:
            raise Undecodable("a message is compressed twice")
        yield offset, value, time
        at = end


def _read(data: bytes) -> tuple[int, bytes | None, int, int]:
    try:
        offset, _, checksum, version, attributes = _HEAD.unpack_from(data)
        at, time = _HEAD.size, 0
        if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
            raise Undecodable("the checksum does not match")
        if version not in (0, 1):
            raise Undecodable(f"format {version} is not known")
        if version:
            (time,) = _TIME.unpack_from(data, at)
            at += _TIME.size
        (key,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size + max(0, key)
        (length,) = _SIZE.unpack_from(data, at)
        at += _SIZE.size
    except struct.error:
        raise Undecodable("a message ends early") from None
    if at + max(0, length) != len(data):
        raise Undecodable(f"a field of {length:,} bytes ends outside its message")
    return offset, (data[at:] if length >= 0 else None), time, attributes
