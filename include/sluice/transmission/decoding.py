"""Kafka's record batches as records: nothing in them can raise, or take more than a bound.

What cannot be read becomes a record that says so (`unreadable`), at its place: one record, or a range of
offsets where single records cannot be told apart. A range has the offset of its first record, and belongs to
whoever reads that offset, as a record does; so both layers have each once, wherever they cut.

kafka-python raises for a whole partition at what it cannot read, and unpacks without a bound.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from sluice.transmission import legacy
from sluice.transmission.line_schema import IDENTITY, MAC
from sluice.transmission.unpacking import Undecodable, UnpackedTooLarge, Unreadable, unpack

#: The headers that are read; a record has thousands of others at most.
NAMES = (*IDENTITY, MAC)
Headers = list[tuple[str, bytes | None]]

#: Base offset, length, leader's epoch, format, checksum, attributes, last offset's delta, first and newest
#: time, producer's id, epoch and sequence, number of records.
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">qi")
_LENGTH_AT, _FORMAT_AT, _CHECKED_FROM = 8, 16, 21
_CODEC, _STAMPED_BY_BROKER, _CONTROL = 0x07, 0x08, 0x20
FORMAT = 2

#: The bytes of an unreadable record or range that are kept: its beginning.
BEGINNING = 4 << 10
#: The most headers of a batch: MOST_HEADERS, plus HEADERS_EACH for each of its records. Each takes time.
MOST_HEADERS, HEADERS_EACH = 1 << 18, 64
#: Times that are kept: those that Python has in every time zone, from 1970 to 9998.
LAST_MS = 253_370_764_799_999

#: A byte of a varint has 7 bits, and one that says whether more follow; ten bytes have 64 bits.
MORE, WIDEST = 0x80, 70

_KNOWN = {name.encode(): name for name in NAMES}


class Record(NamedTuple):
    """A record as both layers read it; `headers` has those of NAMES alone, each once."""

    offset: int
    value: bytes | None
    headers: Headers
    timestamp: int  # ms since the epoch
    unreadable: str | None = None  # "<reason>: <what is wrong>"; `value` is then the beginning of its bytes
    last: int | None = None  # of an unreadable range: its last offset


class Batches:
    """The records of an answer's bytes, from an offset on.

    `next` is the offset after what was given out; `epoch` that of the leader of its batch.
    """

    def __init__(self, data: bytes | bytearray | memoryview, start: int, limit: int) -> None:
        self.next, self.epoch = start, -1
        self._data = memoryview(data)
        self._start, self._limit = start, limit

    def __iter__(self) -> Iterator[Record]:
        at = 0
        while (end := self._end(at)) > at:
            for record in self._batch(bytes(self._data[at:end])):
                if record.offset >= self.next:  # else it was read before
                    self.next = (record.offset if record.last is None else record.last) + 1
                    yield record
            at = end
        if not at and len(self._data):
            # A broker never answers so. Whoever asked for this offset must get on.
            self.next += 1
            yield _unreadable(Undecodable("no whole batch is there"), self._start, None, bytes(self._data))

    def _end(self, at: int) -> int:
        """Where the batch that begins there ends; `at` if it is not all there."""
        if len(self._data) - at < _LENGTH.size:
            return at
        _, length = _LENGTH.unpack_from(self._data, at)
        end = at + _LENGTH.size + int(length)
        return end if at + _FORMAT_AT < end <= len(self._data) else at

    def _batch(self, data: bytes) -> Iterator[Record]:
        """The records of one batch; `next` goes behind it, also where Kafka has removed its last ones."""
        if data[_FORMAT_AT] < FORMAT:
            yield from self._old(data)
            return
        if len(data) < _HEADER.size:
            (base, _) = _LENGTH.unpack_from(data)
            yield _unreadable(Undecodable("the batch ends early"), base, None, data)
            return
        batch = _Batch(data)
        if batch.last < self._start:  # a part of it was read, and this is the same answer again
            return
        try:
            body = batch.body(self._limit)
        except Unreadable as error:
            yield _unreadable(error, batch.base, batch.last, data, time=batch.newest, records=batch.count)
        else:
            self.epoch = batch.epoch
            if body is not None:
                yield from batch.records(body, self._start)
        self.next = max(self.next, batch.last + 1)

    def _old(self, data: bytes) -> Iterator[Record]:
        """The records of a message of the format that Kafka had before 0.11."""
        (offset, _) = _LENGTH.unpack_from(data)
        try:
            for place, value, time in legacy.messages(data, self._limit):
                yield Record(place, value, [], _ms(time))
        except Unreadable as error:
            yield _unreadable(error, offset, None, data)


class _Batch:
    """One batch's header, and its records."""

    def __init__(self, data: bytes) -> None:
        (
            self.base, _, self.epoch, self._format, self._checksum, self._attributes, delta,
            self._first_time, newest, _, _, _, self.count,
        ) = _HEADER.unpack_from(data)  # fmt: skip
        self._data = data
        self._offsets = max(0, delta) + 1
        self.last = self.base + self._offsets - 1
        self.newest = newest

    def body(self, limit: int) -> bytes | None:
        """Its records' bytes, unpacked; None if they are Kafka's own. Raises Unreadable."""
        if crc32c(memoryview(self._data)[_CHECKED_FROM:]) != self._checksum:
            raise Undecodable("the checksum does not match")
        if self._format != FORMAT:
            raise Undecodable(f"format {self._format} is not known")
        if not 0 <= self.count <= self._offsets:
            raise Undecodable(f"a batch of {self._offsets:,} offsets cannot have {self.count:,} records")
        if self._attributes & _CONTROL:
            return None
        return unpack(self._attributes & _CODEC, self._data[_HEADER.size :], limit)

    def records(self, body: bytes, start: int) -> Iterator[Record]:
        """The records from `start` on; each has an offset of its own, and they rise.

        A record that cannot be read has the next free offset. Where its end is not known either, all that is
        left of the batch is a range.
        """
        at, free = 0, self.base
        headers = MOST_HEADERS + HEADERS_EACH * self.count
        stamped = self.newest if self._attributes & _STAMPED_BY_BROKER else None
        for number in range(self.count):
            left = self.count - number - 1
            try:
                length, begin = varint(body, at)
                end = begin + length
                if not begin <= end <= len(body):
                    raise Undecodable(f"record {number} of {self.count:,} ends outside its batch")
            except Undecodable as error:
                yield _unreadable(error, free, self.last, body[at:], time=self.newest, records=left + 1)
                return
            offset = free
            try:
                found = _Frame(body, begin, end)
                # There must be an offset for each of those to come.
                if not free <= self.base + found.delta <= self.last - left:
                    raise Undecodable(f"its offset would be {self.base + found.delta}")
                offset = self.base + found.delta
                if found.headers > headers:
                    raise UnpackedTooLarge(f"it has {found.headers:,} headers, {headers:,} are read")
                # Also those of records before `start`: what is read must not depend on where it begins.
                headers -= found.headers
                if offset >= start:
                    time = self._first_time + found.time if stamped is None else stamped
                    yield Record(offset, found.value(), found.known(), _ms(time))
            except Unreadable as error:
                yield _unreadable(error, offset, None, body[begin:end], time=self.newest)
            at, free = end, offset + 1
        if at < len(body) and free <= self.last:
            behind = Undecodable(f"{len(body) - at:,} bytes stand behind its records")
            yield _unreadable(behind, free, self.last, body[at:], time=self.newest, records=0)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that stands there in Kafka's zigzag form, and where it ends. Raises Undecodable."""
    try:
        byte = data[at]
        if byte < MORE:
            return (byte >> 1) ^ -(byte & 1), at + 1
        value, shift = byte & 0x7F, 7
        while shift < WIDEST:
            at += 1
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < MORE:
                return (value >> 1) ^ -(value & 1), at + 1
            shift += 7
    except IndexError:
        raise Undecodable("a number ends early") from None
    raise Undecodable("a number has over 64 bits")


class _Frame:
    """One record's bytes: where its parts are. Raises Undecodable."""

    __slots__ = ("_at", "_body", "_end", "_value", "delta", "headers", "time")

    def __init__(self, body: bytes, at: int, end: int) -> None:
        self._body, self._end = body, end
        self.time, at = varint(body, at + 1)  # behind the attributes, which Kafka does not use
        self.delta, at = varint(body, at)  # to the offset of the batch
        key, at = varint(body, at)
        at += max(0, key)
        length, at = varint(body, at)
        self._value = (at, length)
        at += max(0, length)
        self.headers, self._at = varint(body, at)
        if self._at > end or self.headers < 0 or 2 * self.headers > end - self._at:
            raise Undecodable("its fields end outside it")

    def value(self) -> bytes | None:
        at, length = self._value
        return self._body[at : at + length] if length >= 0 else None

    def known(self) -> Headers:
        """The headers of NAMES, each with its first value. Raises Undecodable."""
        body, at, end = self._body, self._at, self._end
        found: dict[str, bytes | None] = {}
        for _ in range(self.headers):
            begin = at + 1
            length = body[at] if at < end else 0
            if not length & 0x81:  # a length of one byte, as nearly all are: a call would take twice as long
                length >>= 1
            else:
                length, begin = varint(body, at)
            at = begin + length
            if length < 0 or at > end:
                raise Undecodable("the name of a header ends outside it")
            name = body[begin:at]
            own = _KNOWN.get(name)
            length, at = varint(body, at)
            stop = at + max(0, length)
            if stop > end:
                raise Undecodable("a header ends outside it")
            if own is not None:
                found.setdefault(own, body[at:stop] if length >= 0 else None)
            elif not name.isascii():
                _check_text(name)
            at = stop
        if at != end:
            raise Undecodable("its fields do not end where it does")
        return list(found.items())


def _check_text(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError:
        raise Undecodable("the name of a header is not UTF-8") from None


def _unreadable(
    error: Unreadable, first: int, last: int | None, data: bytes, *, time: int = 0, records: int = 1
) -> Record:
    """What stands for the offsets [first, last], or for one; `records`: how many are said to be there."""
    many = "" if last is None else f" (offsets {first} to {last}, {records:,} records, {len(data):,} bytes)"
    why = f"{error.reason}: {error}{many}"
    return Record(first, data[:BEGINNING], [], _ms(time), why, first if last is None else last)


def _ms(time: int) -> int:
    return min(max(time, 0), LAST_MS)
