"""A block that was being written ends where it still is what its checksums say."""

from __future__ import annotations

from pathlib import Path

import crc32c
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons.unfinished_blocks import ASIDE, cut_torn_blocks, torn_blocks
from tests.cuts.damage import damage, dice

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
    assert block.read_bytes() == DATA[: done.kept // CHUNK * CHUNK]
    assert "were not on the disk when the power went" in capsys.readouterr().out
    aside = tmp_path / "data" / "datanode" / ASIDE
    (kept,) = aside.iterdir() if aside.exists() else [None]
    assert kept is None or (block.read_bytes() + kept.read_bytes())[: done.kept] == DATA[: done.kept]
    assert (kept is None) == (block.stat().st_size == len(DATA))
    cut(tmp_path)
    assert block.stat().st_size == done.kept // CHUNK * CHUNK


@pytest.mark.parametrize("seed", range(8))
def test_lost_checksums_count_as_lost_bytes(block: Path, tmp_path: Path, seed: int) -> None:
    meta = block.with_name("blk_1073741850_1033.meta")
    done = damage(meta, dice(seed), zeros=seed % 2 == 0, most=600)
    cut(tmp_path)
    assert block.read_bytes() == DATA[: max(0, done.kept - 7) // 4 * CHUNK]


def test_other_kinds_of_checksums_are_left_alone(block: Path, tmp_path: Path) -> None:
    block.with_name("blk_1073741850_1033.meta").write_bytes(sums(DATA, kind=1)[:-9])
    assert list(torn_blocks(tmp_path / "data" / "datanode")) == []
    block.with_name("blk_1073741850_1033.meta").write_bytes(b"\x00")
    assert list(torn_blocks(tmp_path / "data" / "datanode")) == [(block, 0)]
