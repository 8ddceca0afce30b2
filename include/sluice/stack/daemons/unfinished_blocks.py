"""Blocks that were being written when the power went.

A DataNode that starts compares only the last 512 bytes of such a block with their checksum. If more of its
end was not on the disk, the block has zeros in its middle then, and HBase, whose write-ahead log it is, finds
them: with a master that ends at each start. So all of it is compared before, and an end that is not what it
was is set aside. Nobody was told that this end is on the disk.

If a part behind it is what it was, the block is damaged, and left as it is: HBase says that it cannot read
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

from sluice.runtime.files import settle, write_bytes
from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: Below the datanode's folder: ends that were cut off.
ASIDE = "lost"
#: With what the file of a block's checksums begins: its version, CRC32C, and of how many bytes each is.
_CHUNK = 512
_HEADER = b"\x00\x01\x02" + _CHUNK.to_bytes(4, "big")
_SUM = 4


@dataclass(frozen=True)
class UnfitBlock:
    """A block that fits its checksums up to byte `end`, and at byte `whole` again, if anywhere."""

    path: Path
    end: int
    whole: int | None


def cut_torn_blocks(settings: Settings) -> None:
    """Cut each block that was being written where its checksums end to fit, if they do to its end."""
    log, folder = DaemonLog("datanode"), settings.home / "data" / "datanode"
    for block in unfit_blocks(folder):
        if block.whole is not None:
            log(str(MiddleDamage(block.path, block.end, block.whole, block.end)))
            continue
        piece = block.path.read_bytes()[block.end :]
        kept = folder / ASIDE / f"{block.path.name}.{block.end}"
        kept.parent.mkdir(exist_ok=True)
        write_bytes(kept, piece, 0o600)
        os.truncate(block.path, block.end)
        settle(block.path)
        log(
            f"{block.path.name}: {len(piece)} bytes at its end are not what was written: they were not on "
            f"the disk when the power went. The block ends at byte {block.end} now; they are in {kept}"
        )


def unfit_blocks(data: Path) -> Iterator[UnfitBlock]:
    """Blocks that were being written and do not fit their checksums."""
    for meta in sorted(data.glob("current/BP-*/current/rbw/blk_*.meta")):
        block = meta.with_name(meta.name.rpartition("_")[0])
        if block.exists():
            content = block.read_bytes()
            end, whole = _fitting(content, meta.read_bytes())
            if end < len(content):
                yield UnfitBlock(block, end, whole)


def _fitting(data: bytes, meta: bytes) -> tuple[int, int | None]:
    """How many bytes of a block fit their checksums, and where others do behind those that do not.

    Checksums of another kind are taken for right. Zeros that fit prove nothing: a torn end has zeros, too.
    """
    lost_header = _HEADER.startswith(meta[: len(_HEADER)].rstrip(b"\0"))
    if not meta.startswith(_HEADER) and not lost_header:
        return len(data), None
    end, sums = None if meta.startswith(_HEADER) else 0, memoryview(meta)[len(_HEADER) :]
    for number, begin in enumerate(range(0, len(data), _CHUNK)):
        chunk, wanted = data[begin : begin + _CHUNK], sums[number * _SUM : (number + 1) * _SUM]
        fits = len(wanted) == _SUM and crc32c.crc32c(chunk) == int.from_bytes(wanted, "big")
        if end is None:
            end = None if fits else begin
        elif fits and any(chunk):
            return end, begin
    return len(data) if end is None else end, None
