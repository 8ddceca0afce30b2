"""Blocks that were being written when the power went, or when the disk was full.

A DataNode that starts compares only the last 512 bytes of such a block with their checksum. If more of its
end was not on the disk, the block has zeros in its middle then, and HBase, whose write-ahead log it is, finds
them: with a master that ends at each start. So all of it is compared before, and an end that is not what it
was is set aside. Nobody was told that this end is on the disk.

The last 512 bytes are written again, with another checksum, when more comes to them. If that came only half,
the checksum is of fewer bytes than there are, or of more, and the DataNode would drop all of them. But the
first of these bytes were synced and answered, such as the end of an entry of HBase's log. So they stay: as
many as fit the checksum, or else all that were there, with a new one.

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
    """A block that can be read up to byte `end`, and fits its checksums at byte `whole` again, if anywhere.

    checksum: a new one of the bytes up to `end` that are no whole part; None: theirs is right.
    """

    path: Path
    end: int
    whole: int | None
    checksum: int | None = None


def cut_torn_blocks(settings: Settings) -> None:
    """Cut each block that was being written where its checksums end to fit, if they do to its end."""
    log, folder = DaemonLog("datanode"), settings.home / "data" / "datanode"
    for block in unfit_blocks(folder):
        if block.whole is not None:
            log(str(MiddleDamage(block.path, block.end, block.whole, block.end)))
            continue
        piece = block.path.read_bytes()[block.end :]
        if not piece:
            _set_checksum(block)
            log(f"{block.path.name}: its last checksum was of more bytes than are there, and is made new")
            continue
        kept = folder / ASIDE / f"{block.path.name}.{block.end}"
        kept.parent.mkdir(exist_ok=True)
        write_bytes(kept, piece, 0o600)
        if block.checksum is not None:  # first: one that fits the bytes before `end` is found again
            _set_checksum(block)
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
            end, whole, checksum = _fitting(content, meta.read_bytes())
            if end < len(content) or checksum is not None:
                yield UnfitBlock(block, end, whole, checksum)


def _set_checksum(block: UnfitBlock) -> None:
    (meta,) = block.path.parent.glob(f"{block.path.name}_*.meta")
    with meta.open("r+b") as file:
        file.seek(len(_HEADER) + block.end // _CHUNK * _SUM)
        file.write((block.checksum or 0).to_bytes(_SUM, "big"))
    settle(meta)


def _fitting(data: bytes, meta: bytes) -> tuple[int, int | None, int | None]:
    """`UnfitBlock`'s end, whole and checksum of a block; its end is its length if it fits its checksums.

    Checksums of another kind are taken for right. Zeros that fit prove nothing: a torn end has zeros, too.
    """
    lost_header = _HEADER.startswith(meta[: len(_HEADER)].rstrip(b"\0"))
    if not meta.startswith(_HEADER) and not lost_header:
        return len(data), None, None
    end, sums = None if meta.startswith(_HEADER) else 0, memoryview(meta)[len(_HEADER) :]
    for number, begin in enumerate(range(0, len(data), _CHUNK)):
        chunk, wanted = data[begin : begin + _CHUNK], sums[number * _SUM : (number + 1) * _SUM]
        fits = len(wanted) == _SUM and crc32c.crc32c(chunk) == int.from_bytes(wanted, "big")
        if end is None:
            end = None if fits else begin
        elif fits and any(chunk):
            return end, begin, None
    if end is None or not meta.startswith(_HEADER):
        return len(data) if end is None else end, None, None
    return _with_answered(data, end, bytes(sums[end // _CHUNK * _SUM :][:_SUM]))


def _with_answered(data: bytes, begin: int, wanted: bytes) -> tuple[int, None, int | None]:
    """The end of a block whose part at `begin` does not fit its checksum, with what was answered of it."""
    if len(wanted) < _SUM:  # it was never synced
        return begin, None, None
    found, sum_so_far = 0, 0
    for length, byte in enumerate(data[begin : begin + _CHUNK], 1):
        sum_so_far = crc32c.crc32c(bytes([byte]), sum_so_far)
        if sum_so_far == int.from_bytes(wanted, "big"):
            found = length
    there = len(data[begin:].rstrip(b"\0"))
    if found or not 0 < there <= _CHUNK:
        return begin + found, None, None
    return begin + there, None, crc32c.crc32c(data[begin : begin + there])
