"""What is whole of a torn log of Flume's stays, and nothing else; an agent starts with it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from sluice.collection import channel_log
from sluice.collection.channel_log import FILL, torn
from sluice.collection.local_machine import TORN
from tests.cuts.damage import damage, dice


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
