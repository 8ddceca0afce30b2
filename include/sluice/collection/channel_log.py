"""The log of a Flume file channel whose end a power cut tore.

Flume syncs each transaction, and refuses to start with a log that has half a record at its end. But what is
written of a transaction when the power goes is just that. So the log is read before its agent starts, and
what follows the last whole record is taken out of it, into a file of its own. If a whole record follows what
is none, the log is damaged, and left as it is.

The format is that of Flume 1.11 (LogFileV3): a record is a byte, its length and three messages of protobuf:
what it is, its content, and an empty one. Where nothing was written yet, the file is filled with `FILL`.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sluice.runtime.files import settle, write_bytes
from sluice.runtime.middle_damage import MiddleDamage, first_whole

FILL = b"\x80"
_RECORD = b"\x7f"
_PREFIX = 5  # the byte and the length
_PUT, _ROLLBACK, _COMMIT = 1, 3, 4  # and a take is 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_HEADER_FIELDS = {1, 2, 3}  # the kind, the transaction, the order of writes
_EVENT, _CHECKSUM, _EVENT_BODY = 1, 2, 2
#: The beginning of any record up to its content; what it is has three numbers of fixed length.
_BEGIN = rb"\x7f....\x17\x0d[\x01-\x04]\x00\x00\x00\x11.{8}\x19"


class _Torn(ValueError):
    """The bytes are no record."""


@dataclass(frozen=True)
class TornLog:
    """A log that has whole records up to byte `end`, and then something else, but for its fill."""

    path: Path
    end: int
    piece: bytes

    def mend(self, aside: Path) -> Path:
        """Take the piece out of the log, into a file of that folder; returns the file.

        The checkpoint goes, too: it may know records that are gone. Flume makes it again of the logs.
        """
        aside.mkdir(exist_ok=True)
        kept = aside / f"{self.path.name}.{self.end}"
        write_bytes(kept, self.piece, 0o600)
        shutil.rmtree(self.path.parent.parent / "checkpoint", ignore_errors=True)
        with self.path.open("r+b") as log:
            log.seek(self.end)
            log.write(FILL * len(self.piece))
            log.flush()
            os.fsync(log.fileno())
        settle(self.path.parent)
        return kept


def torn(channel: Path) -> TornLog | None:
    """The newest log of the channel in that folder, if its end is torn; older ones were closed in order.

    Raises MiddleDamage if whole records follow.
    """
    logs = [path for path in (channel / "data").glob("log-*") if path.suffix == ""]
    if not logs:
        return None
    newest = max(logs, key=lambda path: int(path.name.removeprefix("log-")))
    data = newest.read_bytes()
    end = _whole(data)
    piece = data[end:].rstrip(FILL)
    if piece and (whole := _next(data, end)) is not None:
        raise MiddleDamage(newest, end, whole, end + 1)  # with a byte of what is bad, so that it is mended
    return TornLog(newest, end, piece) if piece else None


def _whole(data: bytes) -> int:
    """Where the last whole record ends, of those that follow each other from the beginning."""
    at = 0
    while data[at : at + 1] == _RECORD and (end := _end(data, at)) <= len(data) and _is_record(data, at, end):
        at = end
    return at


def _next(data: bytes, begin: int) -> int | None:
    """Where the next whole record begins."""
    return first_whole(
        data, _BEGIN, lambda at: _end(data, at), lambda at, end: _is_record(data, at, end), begin
    )


def _end(data: bytes, at: int) -> int:
    """Where a record would end that begins there."""
    return at + _PREFIX + int.from_bytes(data[at + 1 : at + _PREFIX], "big")


def _is_record(data: bytes, at: int, end: int) -> bool:
    try:
        _check(data[at + _PREFIX : end])
    except (_Torn, IndexError):
        return False
    return True


def _check(record: bytes) -> None:
    """Raises _Torn or IndexError if the record is not what Flume wrote."""
    head, at = _message(record, 0)
    content, at = _message(record, at)
    _, end = _message(record, at)
    fields = dict(_fields(head))
    kind = int.from_bytes(fields.get(1, b""), "little")
    found = dict(_fields(content))
    if end != len(record) or set(fields) != _HEADER_FIELDS or not _PUT <= kind <= _COMMIT:
        raise _Torn
    if not found and kind != _ROLLBACK:
        raise _Torn
    if kind == _PUT:
        body = dict(_fields(found[_EVENT])).get(_EVENT_BODY, b"") if _EVENT in found else b""
        if int.from_bytes(found.get(_CHECKSUM, b""), "little") != zlib.crc32(body):
            raise _Torn


def _message(data: bytes, at: int) -> tuple[bytes, int]:
    """The message that begins there with its length, and where it ends."""
    length, at = _number(data, at)
    if at + length > len(data):
        raise _Torn
    return data[at : at + length], at + length


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message of protobuf, with their numbers."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == _BYTES:
            value, at = _message(message, at)
        elif kind == _VARINT:
            begin = at
            _, at = _number(message, at)
            value = message[begin:at]
        elif kind in _FIXED:
            value, at = message[at : at + _FIXED[kind]], at + _FIXED[kind]
        else:
            raise _Torn
        if number == 0 or at > len(message):
            raise _Torn
        yield number, value


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number of variable length there, and where it ends. Raises IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004
            return value, at
        shift += 7
