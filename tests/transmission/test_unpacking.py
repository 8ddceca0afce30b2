"""What a producer compressed is unpacked whole, or refused by name, and never takes more than the bound."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import ROOT
from sluice.transmission.unpacking import (
    MOST_PARTS,
    XERIAL,
    Undecodable,
    UnpackedTooLarge,
    Unreadable,
    unpack,
)
from tests.examples import examples
from tests.transmission.batches import CODECS, NAMES, snappy, xerial

LIMIT = 1 << 20
TEXT = b"".join(
    b'10.0.0.%d - - [17/May/2015:10:05:03 +0000] "GET /%d" 200 17\n' % (n % 50, n) for n in range(9_000)
)
PACKED = [1, 2, 3, 4]
SNAPPY = 2

codecs = pytest.mark.parametrize("codec", PACKED, ids=NAMES.get)


@codecs
@pytest.mark.parametrize(
    "data", [b"", b"x", TEXT, bytes(LIMIT)], ids=["nothing", "a byte", "lines", "the limit"]
)
def test_what_is_within_the_bound_is_unpacked_whole(codec: int, data: bytes) -> None:
    assert unpack(codec, CODECS[codec](data), LIMIT) == data


def test_snappy_comes_raw_or_framed_in_blocks_of_any_size() -> None:
    assert unpack(2, snappy(TEXT), LIMIT) == unpack(2, xerial(TEXT, 1_000), LIMIT) == TEXT


@pytest.mark.parametrize("codec", [1, 3, 4], ids=NAMES.get)
def test_frames_in_a_row_are_one_text(codec: int) -> None:
    frames = [TEXT[:70_000], b"", TEXT[70_000:70_001], TEXT[70_001:]]
    assert unpack(codec, b"".join(map(CODECS[codec], frames)), LIMIT) == TEXT


@codecs
def test_one_byte_over_the_bound_is_too_large(codec: int) -> None:
    with pytest.raises(UnpackedTooLarge, match=f"bytes of {NAMES[codec]} unpack to over 1,048,576"):
        unpack(codec, CODECS[codec](bytes(LIMIT + 1)), LIMIT)


@codecs
def test_bytes_that_end_early_or_are_broken_or_go_on_are_undecodable(codec: int) -> None:
    packed = CODECS[codec](TEXT)
    ends = [1, 5, 17, len(packed) // 2, len(packed) - 1]
    hole = [packed[:40] + bytes(40) + packed[80:]] if codec != SNAPPY else []  # it has no checksum
    for bad in (*(packed[:end] for end in ends), packed + b"rest", *hole):
        with pytest.raises(Undecodable):
            unpack(codec, bad, LIMIT)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_nobody_knows_is_named(codec: int) -> None:
    with pytest.raises(Undecodable, match=f"codec {codec} is not known"):
        unpack(codec, b"x", LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("codec", [1, 3, 4], ids=NAMES.get)
def test_a_million_empty_frames_take_no_time(codec: int) -> None:
    began = time.thread_time()
    with pytest.raises(UnpackedTooLarge, match=f"over {MOST_PARTS:,} compressed parts"):
        unpack(codec, CODECS[codec](b"") * 1_000_000, LIMIT)
    assert time.thread_time() - began < 10


def test_a_million_empty_blocks_of_snappy_take_no_time() -> None:
    began = time.thread_time()
    with pytest.raises(UnpackedTooLarge, match=f"over {MOST_PARTS:,} compressed parts"):
        unpack(2, XERIAL + bytes(8) + b"\0\0\0\1\0" * 1_000_000, LIMIT)
    assert time.thread_time() - began < 10


def test_a_window_that_nobody_needs_is_too_large() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=30)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    with pytest.raises(UnpackedTooLarge, match="window"):
        unpack(4, stream.compress(TEXT) + stream.flush(), LIMIT)


def test_a_snappy_block_that_claims_four_gibibytes_is_not_given_them() -> None:
    with pytest.raises(UnpackedTooLarge):
        unpack(2, b"\xff\xff\xff\xff\x0fx", LIMIT)
    with pytest.raises(Undecodable, match="no length"):
        unpack(2, b"\xff\xff\xff\xff\xff\x0f", LIMIT)


BOMBS = """
    import resource, sys
    from sluice.transmission.unpacking import UnpackedTooLarge, unpack
    from tests.transmission.batches import CODECS
    codec, limit = int(sys.argv[1]), 64 << 20
    bomb = sys.stdin.buffer.read()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        unpack(codec, bomb, limit)
    except UnpackedTooLarge:
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


@pytest.mark.slow
@codecs
def test_a_bomb_takes_no_more_memory_than_the_bound(codec: int) -> None:
    bomb = CODECS[codec](bytes(512 << 20))
    program = [sys.executable, "-c", textwrap.dedent(BOMBS), str(codec)]
    said = subprocess.run(program, input=bomb, capture_output=True, check=True, cwd=ROOT)
    assert int(said.stdout) < 96, f"{len(bomb):,} bytes took {said.stdout.decode()} MiB"


@pytest.mark.slow
@examples(400)
@given(st.sampled_from(PACKED), st.binary(max_size=300), st.data())
def test_no_bytes_raise_anything_else(codec: int, text: bytes, data: st.DataObject) -> None:
    packed = bytearray(CODECS[codec](text * data.draw(st.integers(0, 9))))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(packed)))
        packed[at : at + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    with suppress(Unreadable):
        assert len(unpack(codec, bytes(packed), 500)) <= 500
