"""The files of the ZooKeeper in HBase: old ones, which only one that runs alone purges, and unbegun ones."""

from __future__ import annotations

from pathlib import Path

from sluice.runtime.settings import Settings

#: The newest snapshots stay, with the journals from the oldest of them on.
SNAPSHOTS = 3
#: A journal begins with so many bytes before its first transaction.
HEADER_BYTES = 16
#: What ends a snapshot that was written whole.
_END = b"\x00\x00\x00\x01/"


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


def drop_unbegun(settings: Settings) -> None:
    """Delete journals without a whole header: a full disk leaves one, with which ZooKeeper does not start.

    They have no transaction.
    """
    for journal in (settings.home / "data" / "zookeeper").glob("*/version-2/log.*"):
        if journal.stat().st_size < HEADER_BYTES:
            journal.unlink()


def _is_whole(snapshot: Path) -> bool:
    return snapshot.read_bytes()[-len(_END) :] == _END


def _number(path: Path) -> int:
    """The transaction with which a file begins, which is in its name."""
    return int(path.suffix.removeprefix("."), 16)
