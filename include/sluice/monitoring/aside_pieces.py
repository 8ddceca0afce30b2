"""Names what stores set aside when they started without the ends of their files, until it is deleted.

What is set aside lies in folders, so it is found whether PostgreSQL ran at that moment or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from sluice.collection.local_machine import TORN
from sluice.runtime.settings import Settings
from sluice.stack.daemons import kafka_checkpoints, lost_journal, unfinished_blocks, zookeeper_files
from sluice.storage.tables import alerts

#: The source of the alerts.
SOURCE = "stores"
#: Where pieces lie, below the instance's directory: the store, and what it means that it lost this.
_PIECES = {
    f"flume/*/{TORN}/*": ("the Flume agent {name}", "The front-ends send again what is missing"),
    f"data/namenode/{lost_journal.ASIDE}/*": (
        "HDFS's namenode",
        "What it was told last is lost: `sluice archive verify` says what the archive lacks, and `sluice "
        "archive repair` takes it from Kafka again",
    ),
    f"data/datanode/{unfinished_blocks.ASIDE}/*": (
        "HDFS's datanode",
        "They are of a file that was being written, such as HBase's log. Nobody was told that it was on the "
        "disk",
    ),
    f"data/zookeeper/*/version-2/{zookeeper_files.ASIDE}/*": (
        "HBase's ZooKeeper",
        "HBase made again what it needs of it",
    ),
    f"data/kafka/{kafka_checkpoints.ASIDE}*": ("Kafka", "It made this file again, of its logs"),
}


@dataclass(frozen=True)
class AsidePiece:
    """A file that was set aside. name: below the instance's directory. meaning: what its loss means."""

    path: Path
    name: str
    store: str
    meaning: str
    size: int  # bytes
    since: datetime

    def message(self, days: int) -> str:
        """What the alert says; days: after which the piece is deleted."""
        return (
            f"{self.store} was stopped while it wrote, and lost a file or its end: {self.size:,} bytes were "
            f"not whole, and are in {self.path} since {self.since:%Y-%m-%d %H:%M} UTC. {self.meaning}. "
            f"Nothing is to be done if `sluice audit` agrees; then delete the file, which ends this alert. "
            f"After {days} days it is deleted by itself"
        )


def pieces(settings: Settings) -> Iterator[AsidePiece]:
    """All that is set aside now."""
    for pattern, (store, meaning) in _PIECES.items():
        for path in sorted(settings.home.glob(pattern)):
            own = store.format(name=path.parent.parent.name)
            yield _piece(path, str(path.relative_to(settings.home)), own, meaning)


def tell(settings: Settings, database: sa.Engine) -> None:
    """Raise an alert for each piece, and clear those of pieces that are gone. Raises OSError."""
    days = settings.retention.days
    alerts.sync(database, SOURCE, {each.name: each.message(days) for each in pieces(settings)})


def delete_old(found: Iterable[AsidePiece], before: datetime) -> int:
    """Delete the pieces that were set aside before then; returns how many."""
    old = [each for each in found if each.since < before]
    for each in old:
        each.path.unlink(missing_ok=True)
    return len(old)


def _piece(path: Path, name: str, store: str, meaning: str) -> AsidePiece:
    status = path.stat()
    since = datetime.fromtimestamp(status.st_ctime, UTC)  # a renamed file keeps its mtime
    return AsidePiece(path, name, store, meaning, status.st_size, since)
