"""A piece of the namenode's journal of which a power cut left nothing.

The namenode notes with which transaction the newest piece of its journal began, and refuses to start if it
does not find it ("Gap in transactions"). It reads a torn end by itself; what it does not mend is a piece with
no whole transaction at all. Such a piece is set aside here, and the note says the last transaction before it.

A piece with whole transactions behind one that is not is damaged. It is left as it is, and the namenode does
not start: it would finish the piece first, and then fail at the damage.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from sluice.runtime.files import settle, write_whole
from sluice.runtime.middle_damage import MiddleDamage, first_whole
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: Below the namenode's folder: pieces of its journal that were set aside.
ASIDE = "lost"
_NEWEST, _OPEN = "seen_txid", "edits_inprogress_"
_HEADER = 8  # the layout's version and flags
#: Of an entry: its kind (a byte), its length without that byte and the checksum, the transaction's number.
_KIND, _LENGTH, _NUMBER, _SUM = 1, 4, 8, 4
_SMALLEST = _KIND + _LENGTH + _NUMBER + _SUM
#: The beginning of an entry below 1 MiB, before the first four bytes of its number.
_BEGIN = rb"[\x00-\x7f]\x00[\x00-\x0f](?!\x00\x00).."


def set_aside_empty_journal(settings: Settings) -> None:
    """Let the namenode start with the transactions that there are. It must not run. Raises MiddleDamage."""
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
    """The newest piece of the journal, if it should have transactions and has no whole one.

    Raises MiddleDamage if it has whole ones, but not at its beginning.
    """
    try:
        newest = int((current / _NEWEST).read_text())
    except (FileNotFoundError, ValueError):
        return None
    for piece in current.glob(f"{_OPEN}*"):
        name = piece.name.removeprefix(_OPEN)
        if name.isdecimal() and int(name) == newest and not _begins(piece):
            data = piece.read_bytes()
            if (whole := _first_whole(data, newest)) is not None:
                bad = _HEADER if any(data[:_HEADER]) else 0
                raise MiddleDamage(piece, bad, whole, bad)
            return piece
    return None


def _begins(piece: Path) -> bool:
    """Whether the piece begins with a whole transaction."""
    with piece.open("rb") as file:
        head = file.read(_HEADER + _KIND + _LENGTH)
        length = int.from_bytes(head[_HEADER + _KIND :], "big")
        if not any(head[:_HEADER]) or length > piece.stat().st_size:
            return False
        return _is_whole(head[_HEADER:] + file.read(length))


def _first_whole(data: bytes, first: int) -> int | None:
    """Where the first whole transaction begins, whatever is before it."""
    last = first + len(data) // _SMALLEST
    tops = b"|".join({re.escape(each.to_bytes(_NUMBER, "big")[:4]) for each in (first, last)})

    def end(at: int) -> int:
        begin = at + _KIND + _LENGTH
        if not first <= int.from_bytes(data[begin : begin + _NUMBER], "big") <= last:
            return 0
        return at + _KIND + int.from_bytes(data[at + _KIND : begin], "big") + _SUM

    return first_whole(data, _BEGIN + b"(?:" + tops + b")", end, lambda at, after: _is_whole(data[at:after]))


def _is_whole(entry: bytes) -> bool:
    """Whether an entry with its checksum is what was written."""
    return len(entry) >= _SMALLEST and zlib.crc32(entry[:-_SUM]) == int.from_bytes(entry[-_SUM:], "big")
