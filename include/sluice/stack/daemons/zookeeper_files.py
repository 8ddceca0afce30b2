"""The snapshots and journals of the ZooKeeper in HBase.

It keeps all: only one that runs alone purges. It passes over a torn snapshot for an older one. It does not
start if it has journals and no whole snapshot, nor with a journal that has no beginning.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from sluice.runtime.files import settle
from sluice.runtime.middle_damage import MiddleDamage, first_whole
from sluice.runtime.settings import Settings
from sluice.stack.log import DaemonLog

#: The newest snapshots stay, with the journals from the oldest of them on.
SNAPSHOTS = 3
#: With what a journal begins, and how long its beginning is. A folder for journals that lost theirs.
_MAGIC, _HEADER, ASIDE = b"ZKLG", 16, "lost"
#: An entry of a journal: its checksum (8 bytes), its length (4), its text and `B`. A text begins with client
#: (8), request (4), transaction (8), time (8) and kind (4). The beginning, before the transaction's number:
_BEGIN, _TEXT, _SMALLEST, _END_OF_ENTRY = rb"\x00{4}(?!\x00{4}).{4}\x00(?!\x00{3}).{3}.{12}", 12, 44, b"B"
#: What ends a snapshot that was written whole, behind the checksum (8 bytes) of all before it.
_END, _SUM = b"\x00\x00\x00\x01/", 8


def purge(settings: Settings) -> int:
    """Delete what the newest snapshots do not need; returns how many files."""
    gone = 0
    for folder in (settings.home / "data" / "zookeeper").glob("*/version-2"):
        snapshots = sorted(folder.glob("snapshot.*"), key=_number)
        whole = [path for path in snapshots if _is_whole(path)]  # a full disk leaves others
        if len(whole) <= SNAPSHOTS:
            continue
        oldest = _number(whole[-SNAPSHOTS])
        # A journal goes on after a snapshot was begun, so the last one before it is needed, too.
        before = [log for log in sorted(folder.glob("log.*"), key=_number) if _number(log) <= oldest]
        for path in (*(each for each in snapshots if _number(each) < oldest), *before[:-1]):
            path.unlink()
            gone += 1
    return gone


def set_aside_without_snapshot(settings: Settings) -> None:
    """Let HBase begin a new ZooKeeper if none of its snapshots is whole, since it ends on the old one.

    A snapshot is not synced. Each start writes one, so a new instance has only such ones for a while. HBase
    makes again what it has there: what must last, such as where its regions are, is in HDFS.
    """
    for folder in (settings.home / "data" / "zookeeper").glob("*/version-2"):
        snapshots, logs = list(folder.glob("snapshot.*")), list(folder.glob("log.*"))
        if not snapshots + logs or any(map(_is_whole, snapshots)):
            continue
        (folder / ASIDE).mkdir(exist_ok=True)
        for path in (*logs, *snapshots):  # what is left is still without a whole snapshot
            path.rename(folder / ASIDE / path.name)
        settle(folder)
        DaemonLog("hbase")(
            f"ZooKeeper has no whole snapshot: its {len(snapshots)} snapshots and {len(logs)} journals are "
            f"set aside in {folder / ASIDE}, and HBase begins a new one"
        )


def set_aside_headless(settings: Settings) -> None:
    """Let ZooKeeper start although its newest journal lost even its beginning, on which it would end.

    Each entry is synced with all before it. So nothing that ZooKeeper answered was in a journal without a
    beginning and without a whole entry. Raises MiddleDamage if it has one.
    """
    for folder in (settings.home / "data" / "zookeeper").glob("*/version-2"):
        logs = sorted(folder.glob("log.*"), key=_number)
        if not logs:
            continue
        with logs[-1].open("rb") as file:
            head = file.read(_HEADER)
        if len(head) == _HEADER and head.startswith(_MAGIC):
            continue
        if (whole := _first_whole(logs[-1].read_bytes(), _number(logs[-1]))) is not None:
            raise MiddleDamage(logs[-1], 0, whole, 0)
        (folder / ASIDE).mkdir(exist_ok=True)
        logs[-1].rename(folder / ASIDE / logs[-1].name)
        settle(folder)
        DaemonLog("hbase")(
            f"ZooKeeper's {logs[-1].name} has no beginning, and is set aside in {folder / ASIDE}: the power "
            "went before anything in it was answered"
        )


def _first_whole(data: bytes, first: int) -> int | None:
    """Where the first whole entry of a journal begins; first: the transaction with which the journal does."""

    def end(at: int) -> int:
        after = at + _TEXT + int.from_bytes(data[at + _TEXT - 4 : at + _TEXT], "big")
        return after + 1 if after - at >= _SMALLEST and data[after : after + 1] == _END_OF_ENTRY else 0

    def whole(at: int, after: int) -> bool:
        return zlib.adler32(data[at + _TEXT : after - 1]) == int.from_bytes(data[at : at + 8], "big")

    data = data.rstrip(b"\0")
    return first_whole(data, _BEGIN + re.escape(first.to_bytes(8, "big")[:4]), end, whole)  # of one epoch


def _is_whole(snapshot: Path) -> bool:
    data = snapshot.read_bytes()
    end = len(data) - len(_END) - _SUM
    return end > 0 and data[end:] == zlib.adler32(data[:end]).to_bytes(_SUM, "big") + _END


def _number(path: Path) -> int:
    """The transaction with which a file begins, which is in its name."""
    return int(path.suffix.removeprefix("."), 16)
