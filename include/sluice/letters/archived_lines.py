"""All lines of a topic in the order in which they came, from the archive, and the newest from Kafka."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive import index
from sluice.archive.contents import as_records
from sluice.archive.footer import UnreadableArchiveFile
from sluice.archive.index import IndexedFile
from sluice.engine.batches import gathered
from sluice.letters.line_replay import ReplayReport
from sluice.runtime.settings import Settings
from sluice.speed.source import RecordsGone, TopicRange
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.parquet import Ranged
from sluice.storage.postgres import engine
from sluice.storage.stores import Stores
from sluice.storage.tables import eras
from sluice.storage.tables.commits import CommitLog
from sluice.transmission.line_schema import LINE_IN_RECORD

#: Limits of a portion: lines, and bytes. A file's row group, which is read at once, may have 64 MiB of lines.
PORTION_LINES, PORTION_BYTES = 32_768, 8 << 20

#: Yields lines, and returns the position behind them.
Lines = Generator[pa.RecordBatch, None, int]


class ArchivedLines:
    """The lines of a topic that arrived in [since, until), partition by partition, up to its newest commit.

    Files are looked up a few at a time. So one that compaction or an erasure replaced is read in its new
    form, from where the old one ended. `report` counts what arrived before, and what is gone.
    """

    def __init__(
        self, settings: Settings, topic: str, since: datetime, until: datetime, report: ReplayReport
    ) -> None:
        self._settings, self._topic, self._report = settings, topic, report
        self._database = engine(settings)
        self._since, self._until = (int(each.timestamp() * 1_000) for each in (since, until))
        self._early = f"arrived before {since:%Y-%m-%d %H:%M} UTC"
        self._missing = ""  # the file of the archive that was not there

    def portions(self) -> Iterator[pa.RecordBatch]:
        """The lines (LINE_SCHEMA), in portions.

        Raises UnreadableArchiveFile, and what PostgreSQL, HDFS and Kafka raise while they are away.
        """
        archived = index.positions(self._settings, self._topic)
        head = CommitLog(self._database, self._topic).head()
        counted = {int(name): end for name, end in head.end.items()} if head else {}
        for partition in sorted({*archived, *counted}):
            ends = archived.get(partition, 0), counted.get(partition, 0)
            for some in gathered(self._partition(partition, *ends), PORTION_LINES, PORTION_BYTES):
                yield pa.concat_batches(some)

    def _partition(self, partition: int, archived: int, counted: int) -> Iterator[pa.RecordBatch]:
        at = max(archived, (yield from self._in_files(partition, 0, max(archived, counted))))
        while at < counted:
            try:
                at = yield from self._in_kafka(partition, at, counted)
            except RecordsGone:  # they may be archived by now
                later = yield from self._in_files(partition, at, counted)
                if later == at:
                    self._report.refused["records that left Kafka before they were archived"] += counted - at
                    return
                at = later

    def _in_files(self, partition: int, begin: int, end: int) -> Lines:
        """The archived lines from position `begin` on, of files that begin before `end`."""
        at = begin, 0  # the place of the next line: position, and number in its record
        while some := index.files_from(self._database, self._topic, partition, at[0]):
            for file in some:
                if file.first >= end:
                    return at[0]
                try:
                    for batch in self._in_file(file):
                        rest = _from(batch, at)
                        if len(rest):
                            at = _behind(rest)
                            yield from self._within(rest)
                except HdfsFileNotFound:
                    if self._missing != file.path:  # it was replaced: the index names the new one
                        self._missing = file.path
                        break
                    self._report.refused["in a file that the archive has lost: `sluice archive verify`"] += (
                        file.lines
                    )
                at = file.next, 0
        return at[0]

    def _in_file(self, file: IndexedFile) -> Iterator[pa.RecordBatch]:
        if file.arrival_max < self._since or file.arrival_min >= self._until:
            early = file.lines if file.arrival_max < self._since else 0
            self._report.refused.update({self._early: early} if early else {})
            return
        store, path = Stores.of(self._settings).at(self._settings.hdfs.namenode + file.path)
        try:
            with pq.ParquetFile(pa.PythonFile(Ranged(store, path, file.bytes), mode="r")) as parquet:
                for batch in parquet.iter_batches(PORTION_LINES, use_threads=False):
                    yield as_records(batch, file.partition)
        except (pa.ArrowException, OSError) as error:
            raise UnreadableArchiveFile(file.path, f"its lines cannot be read ({error})") from error

    def _in_kafka(self, partition: int, begin: int, end: int) -> Lines:
        start, stop = ({str(partition): at} for at in (begin, end))
        logs = eras.logs(self._database, self._topic)
        for part in TopicRange.of(self._settings, self._topic, start, stop, logs, checked=False).parts(1):
            for batch in part:
                yield from self._within(batch)
        return end

    def _within(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Those of the lines that arrived in the time."""
        arrival = batch.column("arrival").to_numpy()
        early, inside = arrival < self._since, (arrival >= self._since) & (arrival < self._until)
        if early.any():
            self._report.refused[self._early] += int(early.sum())
        if inside.any():
            yield batch if inside.all() else batch.filter(pa.array(inside))


def _from(batch: pa.RecordBatch, at: tuple[int, int]) -> pa.RecordBatch:
    """The lines of the batch from that place on; all of them come in order."""
    offsets = batch.column("offset").to_numpy()
    first = int(np.searchsorted(offsets, at[0]))
    numbers = batch.column(LINE_IN_RECORD).fill_null(0).to_numpy()
    while first < len(batch) and offsets[first] == at[0] and numbers[first] < at[1]:
        first += 1
    return batch.slice(first)


def _behind(batch: pa.RecordBatch) -> tuple[int, int]:
    """The place behind the last line of the batch."""
    number = batch.column(LINE_IN_RECORD)[-1].as_py()
    return batch.column("offset")[-1].as_py(), (number or 0) + 1
