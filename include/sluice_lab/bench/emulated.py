"""Fault doubles of the speed layer's stores: an HBase that only waits, and a commit log in memory."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from sluice.storage.hbase import Cells
from sluice.storage.postgres import engine_at
from sluice.storage.tables.commits import Commit, CommitHead, CommitLog, LedgerRow, Version
from sluice.storage.tables.epochs import Epochs, PeriodKey, StatePeriod
from sluice.storage.tables.recounts import Recounts


@dataclass
class Calls:
    """What this process asked of its `SlowHBase`."""

    number: int = 0
    bytes: int = 0
    waited: float = 0.0  # seconds


@dataclass
class SlowHBase:
    """HBase's table `state` as files in a folder, whose every call waits.

    It has the methods that a task of the state uses. A call sleeps for a fixed time and for its bytes, takes
    next to no CPU time, and holds up no other call, however many there are.
    """

    folder: Path
    call_seconds: float = 0.0
    mib_seconds: float = 0.0  # for each MiB that is read or written
    calls: Calls = field(default_factory=Calls)

    def get(self, table: str, rows: Sequence[bytes], columns: Any) -> dict[bytes, dict[bytes, bytes]]:
        found = {row: cells for row in rows if (cells := self._row(row))}
        self._wait(sum(len(data) for cells in found.values() for data in cells.values()))
        return found

    def rewrite(self, table: str, rows: Iterable[tuple[bytes, Cells, Sequence[bytes]]]) -> None:
        written = 0
        for row, cells, gone in rows:
            kept = {name: data for name, data in self._row(row).items() if name not in gone}
            new = self._path(row).with_suffix(f".{threading.get_ident()}.{os.getpid()}")
            new.write_bytes(pickle.dumps(kept | dict(cells)))
            new.replace(self._path(row))
            written += sum(map(len, cells.values()))
        self._wait(written)

    def delete(self, table: str, rows: Iterable[tuple[bytes, Sequence[bytes]]]) -> int:
        gone = list(rows)
        if gone:
            self.rewrite(table, [(row, {}, columns) for row, columns in gone])
        return len(gone)

    def put_table(self, table: str, cells: pa.Table, *, timestamp: int) -> int:
        """Take results and forget them: nobody reads them here."""
        self._wait(cells.nbytes)
        return int(cells.num_rows)

    def close(self) -> None:
        """There is no connection."""

    def _wait(self, size: int) -> None:
        seconds = self.call_seconds + self.mib_seconds * size / (1 << 20)
        time.sleep(seconds)
        self.calls.number += 1
        self.calls.bytes += size
        self.calls.waited += seconds

    def _row(self, row: bytes) -> dict[bytes, bytes]:
        path = self._path(row)
        return dict(pickle.loads(path.read_bytes())) if path.exists() else {}  # noqa: S301 - our own file

    def _path(self, row: bytes) -> Path:
        return self.folder / quote(row.decode(), safe="")


class MemoryLog:
    """A topic's commits in memory: what the writer and its tasks ask of `CommitLog`."""

    topic = "logs"

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self._epochs = Epochs()
        self._periods: dict[PeriodKey, StatePeriod] = {}

    def head(self) -> CommitHead | None:
        if not self.commits:
            return None
        last = self.commits[-1]
        return CommitHead(last.seq, last.token, last.topic_id, dict(last.end), last.committed_at)

    def newest(self) -> int:
        return len(self.commits)

    def append(self, commit: Commit) -> None:
        self.commits.append(commit)
        self._epochs = self._epochs.then(commit.seq, commit.token)
        self._periods |= {period.key: period for period in commit.periods}

    def epochs(self) -> Epochs:
        return self._epochs

    def ledger(self) -> Iterator[LedgerRow]:
        return iter(())

    def sampled(self) -> dict[tuple[int, int, str, date], int]:
        """Samples of skipped lines: none is kept."""
        return {}

    def open_versions(self) -> set[Version]:
        return set(self.commits[-1].tasks) if self.commits else set()

    def all(self) -> Mapping[PeriodKey, StatePeriod]:
        """Every period that has state."""
        return self._periods

    def periods(self, wanted: Iterable[PeriodKey]) -> Mapping[PeriodKey, StatePeriod]:
        return {key: self._periods[key] for key in wanted if key in self._periods}


class NothingAside:
    """In the place of `Recounts`: no period is set aside."""

    def of(self, keys: object) -> set[PeriodKey]:
        return set()


@dataclass(frozen=True, eq=False)
class SlowStores:
    """Where a task of the state finds both; for this process and those that are forked from it."""

    slow: SlowHBase
    memory: MemoryLog

    def hbase(self) -> Any:
        return self.slow

    def log(self, topic: str) -> Any:
        return self.memory

    def recounts(self, topic: str) -> Any:
        return NothingAside()


@dataclass(frozen=True)
class SlowConnections:
    """In the place of `Connections`: a real PostgreSQL, and a `SlowHBase` for each process; picklable."""

    folder: str
    call_seconds: float
    mib_seconds: float
    postgres: str = field(repr=False)

    def hbase(self) -> Any:
        return SlowHBase(Path(self.folder), self.call_seconds, self.mib_seconds)

    def log(self, topic: str) -> CommitLog:
        return CommitLog(engine_at(self.postgres), topic)

    def recounts(self, topic: str) -> Recounts:
        return Recounts(engine_at(self.postgres), topic)
