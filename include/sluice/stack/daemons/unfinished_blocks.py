"""Blocks that were being written when the power went.

A DataNode that starts compares only the last 512 bytes of such a block with their checksum. If more of its
end was not on the disk, the block has zeros in its middle then, and HBase, whose write-ahead log it is, finds
them: with a master that ends at each start. So all of it is compared before, and what follows the first piece
that is not what it was is cut off, and set aside. Nobody was told that this end is on the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import crc32c

from sluice.runtime.files import write_bytes
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: Below the datanode's folder: what was cut off.
ASIDE = "lost"
_HEADER, _VERSION = 7, b"\x00\x01"  # and then the kind of checksum, and how many bytes each is of
_CRC32C = 2
_SUM = 4


def cut_torn_blocks(settings: Settings) -> None:
    """Cut each block that was being written where its checksums end to fit."""
    log, folder = DaemonLog("datanode"), settings.home / "data" / "datanode"
    for block, end in torn_blocks(folder):
        kept = folder / ASIDE / f"{block.name}.{end}"
        log(
            f"{block.name}: {block.stat().st_size - end} bytes at its end are not what was written: they "
            f"were not on the disk when the power went. The block ends at byte {end} now; they are in {kept}"
        )
        kept.parent.mkdir(exist_ok=True)
        write_bytes(kept, block.read_bytes()[end:], 0o600)
        os.truncate(block, end)


def torn_blocks(data: Path) -> Iterator[tuple[Path, int]]:
    """Blocks that were being written and do not fit their checksums, and where they still do."""
    for meta in sorted(data.glob("current/BP-*/current/rbw/blk_*.meta")):
        block = meta.with_name(meta.name.rpartition("_")[0])
        if block.exists():
            end = _fitting(block.read_bytes(), meta.read_bytes())
            if end < block.stat().st_size:
                yield block, end


def _fitting(data: bytes, meta: bytes) -> int:
    """How many bytes of a block fit their checksums; those of another kind are taken for right."""
    if len(meta) < _HEADER or not meta.startswith(_VERSION):
        return 0
    if meta[2] != _CRC32C:
        return len(data)
    chunk, sums = int.from_bytes(meta[3:_HEADER], "big"), memoryview(meta)[_HEADER:]
    for number, begin in enumerate(range(0, len(data), chunk)):
        wanted = sums[number * _SUM : (number + 1) * _SUM]
        if crc32c.crc32c(data[begin : begin + chunk]) != int.from_bytes(wanted, "big") or len(wanted) < _SUM:
            return begin
    return len(data)
