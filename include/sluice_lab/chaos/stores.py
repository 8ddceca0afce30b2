"""What of each store lies in files that a power cut shortens.

Only bytes that were not on the disk are taken (`unsynced`). With `sync_writes`, which is the default, each
store writes to the disk before it answers, so a power cut takes nothing that was answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOPIC = "logs"
#: Parquet's first bytes. Of HDFS's finished blocks only the archive's and Hive's lose bytes: both can be made
#: again (`sluice archive repair`, a night). A file of HBase cannot.
PARQUET = b"PAR1"
_BLOCKS = "data/datanode/current/BP-*/current"


@dataclass(frozen=True)
class PoweredStore:
    """A part that keeps data. killed: all that loses its power. files: patterns below the home."""

    killed: tuple[str, ...]
    files: tuple[str, ...]
    newest_only: bool = False  # of each folder, as older files are on the disk
    begins: bytes = b""  # only files that begin so

    def cut_files(self, home: Path) -> Iterator[Path]:
        """The files that may lose their ends."""
        found: dict[Path, list[Path]] = {}
        for pattern in self.files:
            for path in home.glob(pattern):
                if path.is_file() and path.suffix != ".meta":
                    found.setdefault(path.parent, []).append(path)
        for paths in found.values():
            chosen = [max(paths)] if self.newest_only else sorted(paths)
            yield from (path for path in chosen if _begins(path, self.begins))


def _begins(path: Path, with_bytes: bytes) -> bool:
    if not with_bytes:
        return True
    try:
        with path.open("rb") as file:
            return file.read(len(with_bytes)) == with_bytes
    except FileNotFoundError:  # it was deleted meanwhile
        return False


def _channel(agent: str) -> PoweredStore:
    return PoweredStore((f"flume-{agent}",), (f"flume/{agent}/channel/data/log-*",))


STORES: dict[str, PoweredStore] = {
    "kafka": PoweredStore(("kafka",), (f"data/kafka/{TOPIC}-*/*.log",), newest_only=True),
    # Its log lies in blocks that the DataNode writes; ZooKeeper is a part of its process.
    "hbase": PoweredStore(
        ("hbase", "datanode"),
        (f"{_BLOCKS}/rbw/blk_*", "data/zookeeper/*/version-2/log.*", "data/zookeeper/*/version-2/snapshot.*"),
    ),
    "datanode": PoweredStore(("datanode",), (f"{_BLOCKS}/finalized/*/*/blk_*",), begins=PARQUET),
    "namenode": PoweredStore(("namenode",), ("data/namenode/current/edits_inprogress*",)),
    "postgres": PoweredStore(("postgres",), ("data/postgres/pg_wal/0*",), newest_only=True),
    "flume-web2": _channel("web2"),
    "flume-collector1": _channel("collector1"),
    "flume-collector2": _channel("collector2"),
}
