"""A block that was being written ends where it still is what its checksums say."""

from __future__ import annotations

from pathlib import Path

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.stack.daemons.unfinished_blocks import ASIDE, UnfitBlock, _fitting, cut_torn_blocks, unfit_blocks
from tests.cuts.damage import damage, dice
from tests.examples import examples

DATA = dice(3).randbytes(70_000)
CHUNK = 512


def sums(data: bytes, kind: int = 2) -> bytes:
    """A block's checksums, as a DataNode writes them."""
    found = b"\x00\x01" + bytes([kind]) + CHUNK.to_bytes(4, "big")
    for begin in range(0, len(data), CHUNK):
        found += crc32c.crc32c(data[begin : begin + CHUNK]).to_bytes(4, "big")
    return found


@pytest.fixture
def block(tmp_path: Path) -> Path:
    made = tmp_path / "data" / "datanode" / "current" / "BP-1-x" / "current" / "rbw" / "blk_1073741850"
    made.parent.mkdir(parents=True)
    made.write_bytes(DATA)
    made.with_name("blk_1073741850_1033.meta").write_bytes(sums(DATA))
    made.with_name("blk_1_1.meta").write_bytes(sums(b"of a block that is gone"))
    return made


def cut(tmp_path: Path) -> None:
    cut_torn_blocks(Settings(instance="test", home=tmp_path))


def test_what_is_whole_stays(block: Path, tmp_path: Path) -> None:
    cut(tmp_path)
    assert block.read_bytes() == DATA


@pytest.mark.parametrize("seed", range(8))
def test_zeros_are_cut_off_from_the_first_lost_chunk_on(
    block: Path, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    done = damage(block, dice(seed), zeros=True)
    cut(tmp_path)
    there = DATA[: done.kept].rstrip(b"\0") if done.kept % CHUNK else DATA[: done.kept]
    assert block.read_bytes() == there
    assert "were not on the disk when the power went" in capsys.readouterr().out
    (kept,) = (tmp_path / "data" / "datanode" / ASIDE).iterdir()
    assert kept.name == f"{block.name}.{block.stat().st_size}"
    whole = block.read_bytes() + kept.read_bytes()
    assert whole == DATA[: done.kept] + bytes(done.lost)
    cut(tmp_path)
    assert block.read_bytes() == there


@pytest.mark.parametrize("seed", range(8))
def test_lost_checksums_count_as_lost_bytes(block: Path, tmp_path: Path, seed: int) -> None:
    meta = block.with_name("blk_1073741850_1033.meta")
    done = damage(meta, dice(seed), zeros=seed % 2 == 0, most=600)
    cut(tmp_path)
    assert block.read_bytes() == DATA[: max(0, done.kept - 7) // 4 * CHUNK]


def test_other_kinds_of_checksums_are_left_alone(block: Path, tmp_path: Path) -> None:
    meta, data = block.with_name("blk_1073741850_1033.meta"), tmp_path / "data" / "datanode"
    meta.write_bytes(sums(DATA, kind=1)[:-9])
    assert list(unfit_blocks(data)) == []
    for lost in (b"", b"\x00", b"\x00\x01\x02\x00", bytes(500)):
        meta.write_bytes(lost)
        assert list(unfit_blocks(data)) == [UnfitBlock(block, 0, None)]


def test_a_part_that_fits_again_keeps_the_block_as_it_is(
    block: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = bytearray(DATA)
    damaged[5_200] ^= 4
    block.write_bytes(damaged)
    cut(tmp_path)
    assert block.read_bytes() == damaged
    assert not (tmp_path / "data" / "datanode" / ASIDE).exists()
    said = capsys.readouterr().out
    assert f"{block} is damaged at byte 5,120, and from byte 5,632 on it is whole again" in said
    assert f"truncate -s 5120 {block}" in said


@examples(100)
@given(place=st.integers(0), bit=st.integers(0, 7), in_sums=st.booleans())
def test_a_wrong_bit_costs_at_most_the_last_part(place: int, bit: int, in_sums: bool) -> None:
    data, meta = bytearray(DATA), bytearray(sums(DATA))
    changed = meta if in_sums else data
    changed[place % len(changed)] ^= 1 << bit
    end, whole, _ = _fitting(bytes(data), bytes(meta))
    assert whole is not None or end >= len(DATA) // CHUNK * CHUNK


@examples(100)
@given(kept=st.integers(0, len(DATA)), kept_sums=st.integers(0, len(sums(DATA))), zeros=st.booleans())
def test_whatever_was_cut_is_torn_also_where_zeros_fit(kept: int, kept_sums: int, zeros: bool) -> None:
    data = DATA[:30_000] + bytes(20_000) + DATA[50_000:]  # of these zeros some may be in the end that is lost
    meta, left = sums(data), bytes(len(data) - kept) if zeros else b""
    meta = meta[:kept_sums] + (bytes(len(meta) - kept_sums) if zeros else b"")
    end, whole, _ = _fitting(data[:kept] + left, meta)
    assert whole is None
    assert end >= min(kept // CHUNK * CHUNK, max(kept_sums - 7, 0) // 4 * CHUNK)


@pytest.mark.parametrize("more", [1, 300, 3_000])
@pytest.mark.parametrize("answered", [69_700, 69_633, 69_999])
def test_what_was_answered_stays_if_what_came_then_has_no_checksum_yet(
    block: Path, tmp_path: Path, answered: int, more: int
) -> None:
    """As when the disk was full: the checksum of the last part is of what was there before."""
    block.with_name("blk_1073741850_1033.meta").write_bytes(sums(DATA[:answered]))
    block.write_bytes(DATA[:answered] + dice(5).randbytes(more))
    cut(tmp_path)
    assert block.read_bytes() == DATA[:answered]


@pytest.mark.parametrize("zeros", [0, 100, 5_000])
@pytest.mark.parametrize("answered", [69_700, 69_634])
def test_what_was_answered_stays_if_its_checksum_is_of_more_already(
    block: Path, tmp_path: Path, answered: int, zeros: int
) -> None:
    block.write_bytes(DATA[:answered] + bytes(zeros))
    cut(tmp_path)
    assert block.read_bytes() == DATA[:answered]
    assert list(unfit_blocks(tmp_path / "data" / "datanode")) == []  # it has the right checksum now
    assert (tmp_path / "data" / "datanode" / ASIDE).exists() == bool(zeros)


@examples(200)
@given(answered=st.integers(1, len(DATA)), more=st.integers(0, 2_000), written=st.integers(0, 2_000))
def test_whatever_of_the_next_write_came_nothing_answered_is_lost(
    answered: int, more: int, written: int
) -> None:
    """Of the bytes and of their checksums, in either order."""
    after = DATA[:answered] + dice(7).randbytes(2_000)
    end, whole, _ = _fitting(after[: answered + more], sums(after[: answered + written]))
    assert whole is None
    assert end >= answered
