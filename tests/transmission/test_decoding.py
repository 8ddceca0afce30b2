"""No record stops or exhausts a reader: what cannot be read is named at its place, and the rest is read."""

from __future__ import annotations

import struct
import time
import tracemalloc
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.transmission.decoding import BEGINNING, LAST_MS, MOST_HEADERS, Batches, Record
from tests.examples import examples
from tests.transmission.batches import ALONE, CODECS, NAMES, POISON, TIME, batch, lines, record

LIMIT = 1 << 20
CONTROL, BY_BROKER = 0x20, 0x08
IDENTITY = [(b"host", b"web1"), (b"src_file", b"a"), (b"src_offset", b"0"), (b"mac", b"m")]

BEFORE, AFTER = (b"before", b"that"), (b"behind",)


def read(data: bytes, start: int = 0, limit: int = LIMIT) -> list[Record]:
    return list(Batches(data, start, limit))


@pytest.mark.parametrize("name", POISON)
def test_a_batch_that_cannot_be_read_is_one_dead_letter_and_its_neighbours_are_read(name: str) -> None:
    poison, said = POISON[name]
    data = lines(1, *BEFORE) + poison + lines(6, *AFTER)
    first, second, bad, last = read(data, 1)
    assert [each.value for each in (first, second, last)] == [*BEFORE, *AFTER]
    assert (bad.offset, bad.last, last.offset) == (3, 5, 6)
    assert bad.unreadable is not None
    reason, _, why = bad.unreadable.partition(": ")
    assert reason == ("too_large" if "1,048,576" in said else "undecodable")
    assert said in why
    assert "offsets 3 to 5" in why
    assert len(bad.value or b"") <= BEGINNING
    assert bad.timestamp == TIME


@pytest.mark.parametrize("name", POISON)
def test_wherever_the_reading_begins_each_record_and_each_range_comes_once(name: str) -> None:
    data = lines(1, *BEFORE) + POISON[name][0] + lines(6, *AFTER)
    whole = read(data, 1)
    for cut in range(1, 8):
        assert [each for each in whole if each.offset < cut] + read(data, cut) == whole


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("codec", CODECS, ids=NAMES.get)
def test_a_record_that_cannot_be_read_takes_no_other_with_it(name: str, codec: int) -> None:
    data = batch(5, [record(0, b"good"), ALONE[name], record(2, b"fine")], codec=codec)
    good, bad, fine = read(data, 5)
    assert (good.value, fine.value) == (b"good", b"fine")
    assert (good.offset, bad.offset, fine.offset) == (5, 6, 7)
    assert bad.last in (None, 6)
    assert bad.unreadable is not None
    assert bad.unreadable.startswith("undecodable: ")
    for cut in (6, 7, 8):
        assert read(data, cut) == [each for each in (good, bad, fine) if each.offset >= cut]


def test_what_is_odd_but_can_be_read_is_read() -> None:
    odd = [
        record(0, None),
        record(1, b""),
        record(2, b"\0\xff", [(b"host", None), (b"", b""), ("größe".encode(), b"\xff")]),
        record(3, b"x", [(b"host", b"first"), *IDENTITY, (b"host", b"last")]),
    ]
    found = read(batch(0, odd))
    assert [each.value for each in found] == [None, b"", b"\0\xff", b"x"]
    assert [each.unreadable for each in found] == [None] * 4
    assert found[2].headers == [("host", None)]
    assert found[3].headers == [("host", b"first"), ("src_file", b"a"), ("src_offset", b"0"), ("mac", b"m")]


def test_kafkas_own_batches_and_removed_records_are_gone_past() -> None:
    marker = batch(0, [record(0, b"\0\0\0\0", [])], attributes=CONTROL)
    compacted = batch(1, [record(3, b"kept")], offsets=9, count=1)
    found = Batches(marker + compacted + batch(10, [], offsets=5, count=0), 0, LIMIT)
    assert [(each.offset, each.value) for each in found] == [(4, b"kept")]
    assert found.next == 15


@pytest.mark.parametrize("stamped", [0, BY_BROKER])
@pytest.mark.parametrize("time", [-(1 << 63), -1, 0, TIME, (1 << 63) - 1])
def test_a_time_of_any_value_is_one_that_python_and_postgresql_have(time: int, stamped: int) -> None:
    for data in (batch(0, [record(0, b"x")], time=time, attributes=stamped), batch(0, [b""], time=time)):
        (found,) = read(data)
        assert found.timestamp == min(max(0, time), LAST_MS)


@pytest.mark.slow
def test_200_000_headers_are_read_and_more_are_too_large() -> None:
    began = time.thread_time()
    (found,) = read(batch(0, [record(0, b"x", [*([(b"h", b"v")] * 200_000), *IDENTITY])]))
    assert (found.value, len(found.headers)) == (b"x", 4)
    many = [record(n, b"x", [(b"", None)] * (MOST_HEADERS - 1_000)) for n in range(3)]
    whole = read(batch(0, [*many, record(3, b"z")]))
    assert [(each.unreadable or "")[:9] for each in whole] == ["", "too_large", "too_large", ""]
    for cut in range(4):  # which of them is too much must not depend on where the reading begins
        assert read(batch(0, [*many, record(3, b"z")]), cut) == whole[cut:]
    assert time.thread_time() - began < 20


def test_a_batch_that_is_not_whole_waits_for_the_next_answer() -> None:
    data = lines(0, b"a", b"b")
    for end in range(1, len(lines(2, b"c"))):
        batches = Batches(data + lines(2, b"c")[:end], 0, LIMIT)
        assert [each.value for each in batches] == [b"a", b"b"]
        assert batches.next == 2


@pytest.mark.parametrize("length", [-(1 << 31), -13, -12, -1, 0, 4])
def test_a_length_that_is_none_is_gone_past(length: int) -> None:
    batches = Batches(struct.pack(">qi", 7, length) + bytes(80), 7, LIMIT)
    (bad,) = batches
    assert (bad.offset, batches.next) == (7, 8)


def message(offset: int, value: bytes, codec: int = 0, version: int = 1) -> bytes:
    """A message of the formats before Kafka 0.11."""
    time = struct.pack(">q", TIME) if version else b""
    rest = struct.pack(">bb", version, codec) + time + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(rest) + 4, zlib.crc32(rest)) + rest


@pytest.mark.parametrize("codec", [0, 1, 2, 3], ids=NAMES.get)
def test_messages_of_old_formats_are_read(codec: int) -> None:
    plain = [message(4, b"a"), message(5, b"b")]
    inner = message(0, b"a") + message(1, b"b")
    data = b"".join(plain) if not codec else message(5, CODECS[codec](inner), codec)
    assert [(each.offset, each.value, each.timestamp) for each in read(data, 4)] == [
        (4, b"a", TIME),
        (5, b"b", TIME),
    ]


def test_messages_of_format_0_have_their_own_offsets() -> None:
    inner = message(4, b"a", version=0) + message(5, b"b", version=0)
    data = message(5, CODECS[1](inner), 1, version=0)
    assert [(each.offset, each.value) for each in read(data, 4)] == [(4, b"a"), (5, b"b")]


@pytest.mark.parametrize(
    "bad",
    [
        message(1, b"x")[:-1] + b"y",
        message(1, CODECS[1](message(0, bytes(2 << 20))), 1),
        message(1, b"nothing", 1),
        message(1, message(0, b"x"), 4),
        message(1, CODECS[1](message(9, b"a") + message(3, b"b")), 1),
        message(1, CODECS[1](message(0, CODECS[1](message(0, b"x")), 1)), 1),
        message(1, CODECS[1](message(0, b"x")[:-1]), 1),
    ],
)
def test_old_messages_that_cannot_be_read_are_named(bad: bytes) -> None:
    found = read(lines(0, b"before") + bad + lines(2, b"behind"))
    assert [each.offset for each in found] == [0, 1, 2]
    assert [each.unreadable is None for each in found] == [True, False, True]


headers = st.lists(
    st.tuples(
        st.sampled_from([b"host", b"src_file", b"src_offset", b"mac", b"key"]) | st.binary(max_size=4),
        st.none() | st.binary(max_size=9),
    ),
    max_size=4,
)
values = st.none() | st.binary(max_size=40)


@st.composite
def broken(draw: st.DrawFn, base: int) -> bytes:
    """A batch of three offsets of which the broker checked the checksum, and nothing within it."""
    made = [record(n, draw(values), draw(headers)) for n in range(draw(st.integers(0, 3)))]
    body = bytearray(b"".join(made))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(body)))
        body[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    codec = draw(st.sampled_from([*CODECS, 5, 7]))
    packed = bytearray(CODECS.get(codec, bytes)(bytes(body)))
    if draw(st.booleans()) and packed:
        packed[draw(st.integers(0, len(packed) - 1))] ^= draw(st.integers(1, 255))
    return batch(
        base,
        made,
        codec=codec,
        packed=lambda _: bytes(packed),
        count=draw(st.sampled_from([len(made), 0, 3, 4, -1, (1 << 31) - 1])),
        offsets=3,
        checksum=draw(st.sampled_from([None, None, None, 0])),
        version=draw(st.sampled_from([2, 2, 2, 3, 127])),
        attributes=draw(st.sampled_from([0, 0, BY_BROKER])),
        time=draw(st.sampled_from([TIME, -(1 << 63), (1 << 63) - 1])),
    )


@pytest.mark.slow
@examples(400)
@given(st.lists(st.booleans(), min_size=1, max_size=4), st.data())
def test_whatever_a_batch_holds_the_good_ones_are_read_and_offsets_rise(
    bad: list[bool], data: st.DataObject
) -> None:
    whole = b"".join(
        data.draw(broken(3 * n)) if each else lines(3 * n, b"%d" % n, b"", b"x", codec=n)
        for n, each in enumerate(bad)
    )
    found = read(whole)
    for n, each in enumerate(bad):
        own = [one for one in found if 3 * n <= one.offset < 3 * n + 3]
        if not each:
            assert [one.value for one in own] == [b"%d" % n, b"", b"x"]
    places = [(one.offset, one.offset if one.last is None else one.last) for one in found]
    assert all(first <= last for first, last in places)
    assert all(one[1] < other[0] for one, other in pairwise(places))
    cut = data.draw(st.integers(0, 3 * len(bad)))
    assert [one for one in found if one.offset < cut] + read(whole, cut) == found


@examples(300)
@given(st.binary(max_size=200), st.data())
def test_no_bytes_raise(junk: bytes, data: st.DataObject) -> None:
    whole = bytearray(lines(0, b"one", codec=data.draw(st.sampled_from([*CODECS]))) + lines(1, b"two") + junk)
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    batches = Batches(bytes(whole), 0, LIMIT)
    offsets = [each.offset for each in batches]
    assert offsets == sorted(set(offsets))


@pytest.mark.slow
def test_memory_is_bounded_by_the_limit_and_not_by_what_is_claimed() -> None:
    bombs = [batch(n, [record(0, bytes(8 << 20))], codec=1 + n % 4) for n in range(8)]
    fits = [batch(8 + n, [record(0, bytes(LIMIT - 99))], codec=1 + n % 4) for n in range(8)]
    data = b"".join((*bombs, *fits))
    tracemalloc.start()
    found = [(each.unreadable or "")[:9] for each in Batches(data, 0, LIMIT)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == ["too_large"] * 8 + [""] * 8
    assert most < 8 * LIMIT + len(data)
