"""For tests of the archive's scaling: lines that wait on purpose, and what is seen meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kafka import KafkaProducer

from sluice.archive import index, scaling
from sluice.monitoring import watch_progress
from sluice.storage.hdfs import HdfsStore
from sluice.transmission.mac import identity_key
from sluice_hosts.jobs import places
from sluice_lab.bench.headers import to_headers
from tests.archive.archive_trial import Trial

#: Lines in a record. Each line is a number of its own: the record's, and its place in the record.
LINES = 1_000
BODY = b"\n".join(b"record%03d" % number for number in range(LINES))
#: So many seconds' work waits for the archive, at the pace that it has; until it has one, so many records.
AHEAD_SECONDS, FIRST_RECORDS = 16.0, 2_000
TRICKLE_RECORDS = 8


@dataclass(frozen=True)
class Look:
    """What was seen at one time. came, archived: records until then. behind: in seconds, if that is known."""

    at: float
    members: int
    came: int
    archived: int
    behind: float | None


@dataclass
class Load:
    """Sends records of LINES lines to all partitions in turn, and looks at what becomes of them."""

    trial: Trial
    sent: int = 0
    looks: list[Look] = field(default_factory=list)
    _floods_since: Look | None = None

    def __post_init__(self) -> None:
        self._key = identity_key(self.trial.settings)
        self._producer = KafkaProducer(
            bootstrap_servers=self.trial.settings.kafka.bootstrap,
            linger_ms=5,
            compression_type="lz4",
            batch_size=256 << 10,
        )

    def close(self) -> None:
        self._producer.close()

    @property
    def newest(self) -> Look:
        return self.looks[-1]

    def trickle(self) -> None:
        """Send a little: far less than one archiver archives."""
        self._send(TRICKLE_RECORDS)

    def flood(self) -> None:
        """Send so much that always AHEAD_SECONDS' work waits, however fast the archive is."""
        now = self.newest
        first = self._floods_since = self._floods_since or now
        pace = (now.archived - first.archived) / max(1.0, now.at - first.at)
        self._send(now.archived + round(max(FIRST_RECORDS, pace * AHEAD_SECONDS)) - self.sent)

    def look(self) -> None:
        """Look as the watch does; the DAG `archive` reads the file that this writes."""
        settings, trial = self.trial.settings, self.trial
        watch_progress.write(settings, watch_progress.collect(settings, {}, print))
        archived = sum(index.positions(settings, trial.topic).values())
        members, behind = len(places.members(settings)), scaling.behind(settings)
        self.looks.append(Look(time.time(), members, self.sent, archived, behind))

    def _send(self, records: int) -> None:
        for number in range(self.sent, self.sent + records):
            body = BODY.replace(b"record", b"%06d" % number)
            headers = to_headers("web1", "access.log", number * (len(BODY) + 1), body, self._key)
            partition = number % self.trial.partitions_made
            self._producer.send(self.trial.topic, body, headers=headers, partition=partition)
            self.sent += 1
        self._producer.flush()


def archived_numbers(trial: Trial) -> np.ndarray:
    """The numbers of all lines in the archive's files, in their order."""
    return np.sort(np.concatenate([*_numbers(trial)]))


def _numbers(trial: Trial) -> Iterator[np.ndarray]:
    store = HdfsStore.of(trial.settings)
    for partition in range(trial.partitions_made):
        for file in trial.claims(partition).files():
            data = pa.BufferReader(store.read(f"{trial.directory(partition)}/{file.name}"))
            line = pq.read_table(data, columns=["line"]).column("line")
            yield pc.cast(pc.cast(line, pa.string()), pa.int32()).to_numpy()


def told(looks: Iterable[Look]) -> str:
    """A line for each stretch of time with equally many members."""
    lines = []
    for members, part in groupby(looks, key=lambda each: each.members):
        seen = [*part]
        first, last = seen[0], seen[-1]
        seconds = max(last.at - first.at, 0.001)
        came, archived = ((last.came - first.came), (last.archived - first.archived))
        behind = max((each.behind for each in seen if each.behind is not None), default=0.0)
        lines.append(
            f"{members} members for {seconds:.1f} s: {came * LINES / seconds:,.0f} lines/s came, "
            f"{archived * LINES / seconds:,.0f} were archived; at most {behind:.1f} s behind"
        )
    return "\n".join(lines)
