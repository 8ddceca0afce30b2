"""Old snapshots and journals of the ZooKeeper in HBase, which keeps all: only one that runs alone purges."""

from __future__ import annotations

from pathlib import Path

from sluice.runtime.settings import Settings

#: The newest snapshots stay, with the journals from the oldest of them on.
SNAPSHOTS = 3


def purge(settings: Settings) -> int:
    """Delete what the newest snapshots do not need; returns how many files."""
    gone = 0
    for folder in (settings.home / "data" / "zookeeper").glob("*/version-2"):
        snapshots = sorted(folder.glob("snapshot.*"), key=_number)
        if len(snapshots) <= SNAPSHOTS:
            continue
        oldest = _number(snapshots[-SNAPSHOTS])
        # A journal goes on after a snapshot was begun, so the last one before it is needed, too.
        before = [log for log in sorted(folder.glob("log.*"), key=_number) if _number(log) <= oldest]
        for path in (*snapshots[:-SNAPSHOTS], *before[:-1]):
            path.unlink()
            gone += 1
    return gone


def _number(path: Path) -> int:
    """The transaction with which a file begins, which is in its name."""
    return int(path.suffix.removeprefix("."), 16)
