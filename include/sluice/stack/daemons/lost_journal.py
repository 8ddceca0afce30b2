"""A piece of the namenode's journal of which a power cut left nothing.

The namenode notes with which transaction the newest piece of its journal began, and refuses to start if it
does not find it ("Gap in transactions"). It reads a torn end by itself; what it does not mend is a piece with
no whole transaction at all. Such a piece is set aside here, and the note says the last transaction before it.
"""

from __future__ import annotations

import zlib
from pathlib import Path

from sluice.runtime.files import settle, write_whole
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: Below the namenode's folder: pieces of its journal that were set aside.
ASIDE = "lost"
_NEWEST, _OPEN = "seen_txid", "edits_inprogress_"
_HEADER = 8  # the layout's version and flags
#: Of an entry: its kind (a byte), its length without that byte and the checksum, the transaction's number.
_KIND, _LENGTH, _SUM = 1, 4, 4


def set_aside_empty_journal(settings: Settings) -> None:
    """Let the namenode start with the transactions that there are. It must not run."""
    folder = settings.home / "data" / "namenode"
    if (piece := empty_piece(folder / "current")) is None:
        return
    first = int(piece.name.removeprefix(_OPEN))
    DaemonLog("namenode")(
        f"its journal has no whole transaction from {first} on: what HDFS was told since then is lost, "
        f"such as files that were written or renamed last. {piece.name} is set aside in {folder / ASIDE}"
    )
    (folder / ASIDE).mkdir(exist_ok=True)
    piece.rename(folder / ASIDE / piece.name)
    settle(folder / ASIDE)
    write_whole(folder / "current" / _NEWEST, f"{first - 1}\n")


def empty_piece(current: Path) -> Path | None:
    """The newest piece of the journal, if it should have transactions and has no whole one."""
    try:
        newest = int((current / _NEWEST).read_text())
    except (FileNotFoundError, ValueError):
        return None
    for piece in current.glob(f"{_OPEN}*"):
        name = piece.name.removeprefix(_OPEN)
        if name.isdecimal() and int(name) == newest and not _begins(piece):
            return piece
    return None


def _begins(piece: Path) -> bool:
    """Whether the piece begins with a whole transaction."""
    with piece.open("rb") as file:
        head = file.read(_HEADER + _KIND + _LENGTH)
        if len(head) < _HEADER + _KIND + _LENGTH or not any(head[:_HEADER]):
            return False
        length = int.from_bytes(head[-_LENGTH:], "big") - _LENGTH
        if not 0 < length <= piece.stat().st_size:
            return False
        rest, wanted = file.read(length), file.read(_SUM)
    return zlib.crc32(head[_HEADER:] + rest) == int.from_bytes(wanted, "big") and len(wanted) == _SUM
