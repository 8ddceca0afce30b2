"""A log's bytes, unpacked as they are read, up to a bound."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import zstandard

from sluice.transmission.unpacking import ZSTD_PIECE, ZSTD_WINDOW

READ = 1 << 20
#: A packed log may unpack to RATIO times its bytes, or to AT_LEAST bytes if that is more. Logs pack 10 to 30
#: times; what packs better was made to fill a disk, or somebody knows better and says so.
RATIO, AT_LEAST = 100, 64 << 20
#: Where the magic bytes end that are looked at; tar has its own at 257.
_HEAD, _TAR_AT, _TAR = 512, 257, b"ustar"


class ReplayError(ValueError):
    """The log or the front-end cannot be used."""


def _streamed(opened: Callable[[Path], Any]) -> Callable[[Path], Iterator[bytes]]:
    def read(file: Path) -> Iterator[bytes]:
        with opened(file) as source:
            while block := source.read(READ):
                yield block

    return read


def _zstd(file: Path) -> Iterator[bytes]:
    """Frame by frame: zstandard's own stream does not say that a file ends early."""
    frame, rest = None, b""
    with file.open("rb") as source:
        while data := rest or source.read(ZSTD_PIECE):
            frame = frame or zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()
            if block := frame.decompress(data):
                yield block
            rest = frame.unused_data or b"" if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("it ends inside a frame")


#: By their first bytes: the suffix, the name and what reads it as a stream.
_PACKED: dict[bytes, tuple[str, str, Callable[[Path], Iterator[bytes]]]] = {
    b"\x1f\x8b": (".gz", "gzip", _streamed(gzip.open)),
    b"BZh": (".bz2", "bzip2", _streamed(bz2.open)),
    b"\xfd7zXZ\0": (".xz", "xz", _streamed(lzma.open)),
    b"\x28\xb5\x2f\xfd": (".zst", "zstd", _zstd),
}
#: Those that are refused, with what unpacks them.
_REFUSED = {
    b"PK\x03\x04": ("a zip archive", "unzip it"),
    b"PK\x05\x06": ("a zip archive", "unzip it"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "unpack it with 7z x"),
    b"Rar!\x1a\x07": ("a rar archive", "unpack it with unrar x"),
    b"\x04\x22\x4d\x18": ("packed with lz4", "unpack it with lz4 -d"),
    b"\x1f\x9d": ("packed with compress", "unpack it with uncompress"),
    b"LZIP": ("packed with lzip", "unpack it with lzip -d"),
    b"PAR1": ("a Parquet file", "write its lines as text"),
}
_ONE_LOG = "and name one log of it"


def blocks(file: Path, most: int = 0) -> Iterator[bytes]:
    """The log's bytes, unpacked if it is gzip, bzip2, xz or zstd, by its first bytes.

    most: what it may become; 0: RATIO times its size, or AT_LEAST. Raises ReplayError for what is no log, is
    damaged, or becomes more.
    """
    if file.is_dir():
        raise ReplayError(f"{file} is a folder: name one log in it, plain or packed")
    if not file.is_file():
        raise ReplayError(f"{file}: no such file")
    with file.open("rb") as plain:
        head = plain.read(_HEAD)
    _refuse(file, head)
    for magic, (_, name, read) in _PACKED.items():
        if head.startswith(magic):
            return _unpacked(file, name, read, most or max(AT_LEAST, RATIO * file.stat().st_size))
    for suffix, name, _ in _PACKED.values():
        if file.suffix == suffix and head:
            raise ReplayError(f"{file}: not a {name} file, despite its name; rename it if it is plain text")
    return _plain(file)


def _refuse(file: Path, head: bytes) -> None:
    for magic, (what, remedy) in _REFUSED.items():
        if head.startswith(magic):
            raise ReplayError(f"{file} is {what}: {remedy}, {_ONE_LOG}")
    if head[_TAR_AT:].startswith(_TAR):
        raise ReplayError(f"{file} is a tar archive: unpack it with tar xf, {_ONE_LOG}")


_plain = _streamed(partial(open, mode="rb"))


def _unpacked(file: Path, name: str, read: Callable[[Path], Iterator[bytes]], most: int) -> Iterator[bytes]:
    size = 0
    try:
        for block in read(file):
            if not size:
                _refuse(file, block)
            size += len(block)
            if size > most:
                raise ReplayError(
                    f"{file}: {file.stat().st_size:,} bytes of {name} unpack to over {most:,}; what came "
                    "before was replayed. If all of it is a log, set SLUICE_LIMITS__UNPACKED_LOG_BYTES to "
                    "the bytes that it has"
                )
            yield block
    except (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise ReplayError(f"{file}: damaged ({error}); what came before it was replayed") from error
