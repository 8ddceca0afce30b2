"""What is whole of a torn log of Flume's stays, and nothing else; an agent starts with it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.collection import channel_log
from sluice.collection.channel_log import FILL, torn
from sluice.collection.local_machine import TORN
from sluice.runtime.middle_damage import MiddleDamage
from tests.cuts.damage import damage, dice
from tests.examples import examples


def number(value: int) -> bytes:
    found = b""
    while value >= 0x80:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def message(content: bytes) -> bytes:
    return number(len(content)) + content


def record(kind: int, content: bytes, order: int) -> bytes:
    """As Flume 1.11 writes it."""
    head = b"\x0d" + kind.to_bytes(4, "little") + b"\x11" + (7).to_bytes(8, "little")
    head += b"\x19" + (1_795_900_000_000 + order).to_bytes(8, "little")
    text = message(head) + message(content) + message(b"")
    return b"\x7f" + len(text).to_bytes(4, "big") + text


def put(body: bytes, order: int) -> bytes:
    event = b"\x0a" + message(b"\x0a\x04host\x12\x04web2") + b"\x12" + message(body)
    return record(1, b"\x0a" + message(event) + b"\x11" + zlib.crc32(body).to_bytes(8, "little"), order)


def records() -> list[bytes]:
    found = []
    for order in range(0, 60, 3):
        body = dice(order).randbytes(9_000)
        take = b"\x0d\x01\x00\x00\x00\x15\x05\x00\x00\x00"
        end = record(3, b"", order + 2) if order % 9 == 0 else record(4, b"\x0d\x01\x00\x00\x00", order + 2)
        found += [put(body, order), record(2, take, order + 1), end]
    return found


@pytest.fixture
def channel(tmp_path: Path) -> Path:
    """A channel with a log that was closed and a newer one, filled up."""
    for folder in ("data", "checkpoint"):
        (tmp_path / "channel" / folder).mkdir(parents=True)
    data = tmp_path / "channel" / "data"
    (data / "log-9").write_bytes(b"older")
    (data / "log-10").write_bytes(b"".join(records()) + FILL * 1000)
    (data / "log-10.meta").write_bytes(b"meta")
    (tmp_path / "channel" / "checkpoint" / "queueset").mkdir()
    return tmp_path / "channel"


def ends(found: Sequence[bytes]) -> list[int]:
    return [sum(map(len, found[:each])) for each in range(len(found) + 1)]


def test_a_log_that_ended_well_is_left_alone(channel: Path, tmp_path: Path) -> None:
    assert torn(channel) is None
    assert torn(tmp_path / "none") is None
    (channel / "data" / "log-10").write_bytes(b"")  # it was made a moment before
    assert torn(channel) is None


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_all_whole_records_stay_and_the_rest_is_set_aside(
    channel: Path, tmp_path: Path, seed: int, zeros: bool
) -> None:
    log = channel / "data" / "log-10"
    before = log.read_bytes()
    done = damage(log, dice(seed), zeros=zeros, padding=FILL)
    found, whole = torn(channel), [end for end in ends(records()) if end <= done.kept]
    if found is None:  # cut off between two records
        assert not zeros
        assert done.kept in whole
        return
    # A record whose lost bytes were zeros is whole.
    assert found.end >= whole[-1] if zeros else found.end == whole[-1]
    assert found.end in ends(records())
    kept = found.mend(tmp_path / TORN)
    assert kept.read_bytes() == found.piece
    assert log.read_bytes()[: found.end] == before[: found.end]
    assert set(log.read_bytes()[found.end :]) <= set(FILL)
    assert not (channel / "checkpoint").exists()
    assert torn(channel) is None


def test_any_single_byte_of_a_record_counts() -> None:
    text = put(b"a line of a log", 0) + record(4, b"\x0d\x01\x00\x00\x00", 1)
    first = len(put(b"a line of a log", 0))
    for at in range(first):
        for lost in (b"\x00", FILL):
            changed = text[:at] + lost * (first - at) + text[first:]
            if changed != text:
                assert channel_log._whole(changed) == 0


SMALL = [put(b"line %d" % each * 5, each) + record(4, b"\x0d\x01\x00\x00\x00", each) for each in range(6)]


def small_channel(made: Path, data: bytes) -> Path:
    (made / "data").mkdir()
    (made / "data" / "log-1").write_bytes(data)
    return made


@examples(200)
@given(bit=st.integers(0))
def test_a_wrong_bit_before_whole_records_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, bit: int
) -> None:
    pieces, data = ends(records_of(SMALL)), bytearray(b"".join(SMALL))
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    channel = small_channel(tmp_path_factory.mktemp("channel"), bytes(data) + FILL * 100)
    place = bit // 8 % len(data)
    try:
        found = torn(channel)
    except MiddleDamage as damage:
        bounds = damage.bad, damage.whole
    else:  # only a put has a checksum; else a wrong number in a whole record is not seen
        assert found is None or (place >= pieces[-2] and found.end == pieces[-2])
        return
    assert place < pieces[-2]
    assert set(bounds) <= set(pieces)
    assert bounds[0] <= place < bounds[1]


def records_of(pairs: Sequence[bytes]) -> list[bytes]:
    found = []
    for pair in pairs:
        first = channel_log._PREFIX + int.from_bytes(pair[1 : channel_log._PREFIX], "big")
        found += [pair[:first], pair[first:]]
    return found


@examples(200)
@given(kept=st.integers(0), zeros=st.integers(0, 3000), fill=st.integers(0, 3000))
def test_any_cut_before_zeros_and_fill_is_torn_at_its_last_whole_record(
    tmp_path_factory: pytest.TempPathFactory, kept: int, zeros: int, fill: int
) -> None:
    data = b"".join(SMALL)
    kept %= len(data)
    channel = small_channel(tmp_path_factory.mktemp("channel"), data[:kept] + bytes(zeros) + FILL * fill)
    found, whole = torn(channel), [end for end in ends(records_of(SMALL)) if end <= kept]
    assert found is None or found.end >= whole[-1]
    assert found is not None or kept == whole[-1] or zeros


def test_damage_is_left_as_it_is_until_a_person_cuts_it(tmp_path: Path) -> None:
    data = bytearray(b"".join(SMALL))
    at = ends(records_of(SMALL))[2]
    data[at + 60] ^= 1
    channel = small_channel(tmp_path, bytes(data))
    with pytest.raises(MiddleDamage, match=f"truncate -s {at + 1} "):
        torn(channel)
    assert (channel / "data" / "log-1").read_bytes() == data
    (channel / "data" / "log-1").write_bytes(data[: at + 1])
    found = torn(channel)
    assert found is not None
    assert found.end == at


@pytest.mark.parametrize("fill", [b"\0", b"\x7f", SMALL[0][:33]])
def test_a_large_log_is_looked_through_in_time_that_grows_with_it(fill: bytes) -> None:
    data, begin = fill * ((8 << 20) // len(fill)), time.process_time()
    assert channel_log._next(data, 0) is None
    assert time.process_time() - begin < 10
