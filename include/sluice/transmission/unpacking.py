"""Unpacks what a producer compressed, up to a bound.

Kafka's limit (`kafka.max_message_bytes`) is of the compressed bytes: 256 KiB may be 865 MiB once they are
read. So each codec is read as a stream, piece by piece, and ends at the bound.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import lz4.frame
import pyarrow as pa
import zstandard

#: Bytes read from a codec at a time, and bytes given to it at a time.
STEP, PIECE = 1 << 20, 64 << 10
#: zstd has no limit of its own on what a piece becomes: 4 bytes may become 128 KiB.
ZSTD_PIECE = 512
#: Kafka's own readers allow as much; `compression.zstd.level=22` needs it.
ZSTD_WINDOW = 128 << 20
#: Members, frames or blocks of one batch: a producer makes one, or one for each 32 KiB. Each costs time.
MOST_PARTS = 10_000

XERIAL = b"\x82SNAPPY\0"
XERIAL_HEADER = 16
#: Bytes of the length of a raw snappy block: 7 bits each, and one that says whether more follow.
SNAPPY_LENGTH, MORE = 5, 0x80


class Unreadable(ValueError):
    """Bytes of Kafka that are no lines. `reason` is that of their dead letter."""

    reason = "unreadable"


class Undecodable(Unreadable):
    """The bytes are not what Kafka's format or the codec says."""

    reason = "undecodable"


class UnpackedTooLarge(Unreadable):
    """To read the bytes would take more memory or time than a batch may."""

    reason = "too_large"


class _Stream(Protocol):
    """What reads one member or frame."""

    def read(self, data: bytes, most: int) -> bytes: ...
    @property
    def ended(self) -> bool: ...
    @property
    def rest(self) -> bytes: ...


def unpack(codec: int, data: bytes, limit: int) -> bytes:
    """The bytes that the codec (as Kafka numbers it; 0: none) made these of.

    Raises UnpackedTooLarge if they are more than `limit`, Undecodable if they cannot be read to their end.
    """
    if codec == 0:
        return data
    if codec not in _CODECS:
        raise Undecodable(f"compression codec {codec} is not known")
    name, read = _CODECS[codec]
    parts: list[bytes] = []
    size = 0
    try:
        for part in read(data, limit):
            parts.append(part)
            size += len(part)
            if size > limit:
                raise UnpackedTooLarge(f"{len(data):,} bytes of {name} unpack to over {limit:,}")
    except (Unreadable, MemoryError):  # a machine without memory says nothing about the bytes
        raise
    except Exception as error:  # each library has errors of its own, and some raise what Python has
        raise Undecodable(f"{name} cannot unpack it: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _streamed(make: Callable[[], _Stream], piece: int, data: bytes) -> Iterator[bytes]:
    """What members or frames in a row become; pieces are small, so that none is copied often."""
    stream, parts = make(), 1
    for at in range(0, len(data), piece):
        given = data[at : at + piece]
        while True:
            while True:
                part = stream.read(given, STEP)
                given = b""
                if part:
                    yield part
                if len(part) < STEP or stream.ended:
                    break
            if not stream.ended or not (stream.rest or at + piece < len(data)):
                break
            given, stream, parts = stream.rest, make(), parts + 1
            if parts > MOST_PARTS:
                raise UnpackedTooLarge(f"over {MOST_PARTS:,} compressed parts in one batch")
            if not given:
                break
    if not stream.ended:
        raise Undecodable("the compressed bytes end early")


class _Gzip:
    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    def read(self, data: bytes, most: int) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + data, most)

    @property
    def ended(self) -> bool:
        return self._stream.eof

    @property
    def rest(self) -> bytes:
        return self._stream.unused_data


class _Lz4:
    def __init__(self) -> None:
        self._stream = lz4.frame.LZ4FrameDecompressor()

    def read(self, data: bytes, most: int) -> bytes:
        found: bytes = self._stream.decompress(data, max_length=most)
        return found

    @property
    def ended(self) -> bool:
        return bool(self._stream.eof)

    @property
    def rest(self) -> bytes:
        return self._stream.unused_data or b""


class _Zstd:
    def __init__(self) -> None:
        self._stream: Any = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()

    def read(self, data: bytes, most: int) -> bytes:
        found: bytes = self._stream.decompress(data) if data else b""
        return found

    @property
    def ended(self) -> bool:
        return bool(self._stream.eof)

    @property
    def rest(self) -> bytes:
        return self._stream.unused_data or b""


def _gzip(data: bytes, limit: int) -> Iterator[bytes]:
    return _streamed(_Gzip, PIECE, data)


def _lz4(data: bytes, limit: int) -> Iterator[bytes]:
    return _streamed(_Lz4, PIECE, data)


def _zstd(data: bytes, limit: int) -> Iterator[bytes]:
    try:
        yield from _streamed(_Zstd, ZSTD_PIECE, data)
    except zstandard.ZstdError as error:
        if "memory" in str(error):  # of a frame whose window is larger
            raise UnpackedTooLarge(f"a zstd frame needs a window of over {ZSTD_WINDOW:,} bytes") from error
        raise


def _snappy(data: bytes, limit: int) -> Iterator[bytes]:
    """Raw snappy, or the blocks of Java's stream (xerial): each says how long it will be."""
    whole = f"{len(data):,} bytes of snappy unpack to over {limit:,}"
    if not data.startswith(XERIAL):
        yield _block(data, limit, whole)
        return
    if len(data) < XERIAL_HEADER:
        raise Undecodable("the compressed bytes end early")
    at, left, blocks = XERIAL_HEADER, limit, 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if size < 0 or at + size > len(data):  # also where the size itself ends early
            raise Undecodable("a snappy block ends early")
        blocks += 1
        if blocks > MOST_PARTS:
            raise UnpackedTooLarge(f"over {MOST_PARTS:,} compressed parts in one batch")
        part = _block(data[at : at + size], left, whole)
        at, left = at + size, left - len(part)
        yield part


def _block(data: bytes, left: int, whole: str) -> bytes:
    """A raw snappy block of at most `left` bytes; `whole` says what it means if it is larger."""
    length = shift = 0
    for byte in data[:SNAPPY_LENGTH]:
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < MORE:
            break
    else:
        raise Undecodable("a snappy block has no length")
    if length > left:
        raise UnpackedTooLarge(whole)
    if not length:
        if len(data) > 1:
            raise Undecodable("a snappy block of no bytes has some")
        return b""
    found: bytes = pa.Codec("snappy").decompress(data, decompressed_size=length, asbytes=True)
    return found


#: By their numbers in Kafka.
_CODECS: dict[int, tuple[str, Callable[[bytes, int], Iterator[bytes]]]] = {
    1: ("gzip", _gzip),
    2: ("snappy", _snappy),
    3: ("lz4", _lz4),
    4: ("zstd", _zstd),
}
