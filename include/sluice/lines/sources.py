"""Where lines are: in the archive's files, or, until they are archived, in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive import index
from sluice.archive.contents import as_records
from sluice.archive.index import IndexedFile
from sluice.lines.basis import Basis
from sluice.lines.pieces import ArchivedPiece, opened, pieces
from sluice.runtime.positions import Era, PartitionLog, shown
from sluice.runtime.settings import Settings
from sluice.speed.source import TopicRange
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.postgres import engine
from sluice.storage.stores import Store, Stores
from sluice.storage.tables import archive_expiry, eras
from sluice.transmission.topics import TopicMissing, Topics

#: A piece is read as a whole, because it has about 64 MiB of lines at most (`archive.buffer.FILE_BYTES`). Its
#: rows are made FILE_LINES at a time: the names of host and file, which are written once for many lines, may
#: have 1,000 bytes.
FILE_LINES = 32_768


@dataclass
class Sources:
    """The files and the offsets that can have lines of a result."""

    settings: Settings
    topic: str
    files: list[ArchivedPiece]  # in the order in which their first lines arrived
    rest: dict[str, tuple[int, int]]  # positions that are not archived, [first, next) by partition
    logs: dict[int, PartitionLog]
    gone: list[str] = field(default_factory=list)  # what could have had lines, and why it has none

    @classmethod
    def of(cls, settings: Settings, basis: Basis) -> Sources:
        """The sources of a result. Raises what PostgreSQL and Kafka raise while they are away."""
        ends = basis.ends()
        # Read before the files: what is archived in between is then in both, and counts once.
        archived = index.positions_of(settings, basis.topic, ends)
        between = (basis.start, basis.end)
        files = index.files_of(settings, basis.topic, basis.days, ends, between)
        rest = {str(p): (archived[p], end) for p, end in ends.items() if end > archived[p]}
        made = cls(settings, basis.topic, [], rest, eras.logs(engine(settings), basis.topic))
        made._keep_what_kafka_has()
        with engine(settings).connect() as connection:
            expired = archive_expiry.days(connection, basis.topic) & set(basis.days)
        made.gone += [f"retention deleted lines of {day} from the archive" for day in sorted(expired)]
        made._take(files, between)
        return made

    def in_kafka(self) -> Iterator[pa.RecordBatch]:
        """The lines (LINE_SCHEMA) that are not archived yet.

        Raises KeyMissing, RecordsGone, NoRecords, KafkaError.
        """
        start = {partition: first for partition, (first, _) in self.rest.items()}
        end = {partition: following for partition, (_, following) in self.rest.items()}
        if end:
            for part in TopicRange.of(self.settings, self.topic, start, end, self.logs, checked=False).parts(
                1
            ):
                yield from part

    def in_file(self, piece: ArchivedPiece) -> Iterator[pa.RecordBatch]:
        """The lines (LINE_SCHEMA) of a piece of an archive's file; none if the file is gone."""
        file = piece.file
        try:
            source = self._source(piece)
        except HdfsFileNotFound:
            self._is_gone(file)
            return
        with pq.ParquetFile(source) as parquet:
            groups = None if piece.group is None else [piece.group]
            try:
                for batch in parquet.iter_batches(FILE_LINES, row_groups=groups, use_threads=False):
                    yield as_records(batch, file.partition)
            except HdfsFileNotFound:  # the rest of a merged file
                self._is_gone(file)

    def _source(self, piece: ArchivedPiece) -> pa.NativeFile:
        """What the piece is read from: all bytes of a small file at once, and of a merged one its part."""
        file = piece.file
        store, path = self._at(file)
        if piece.group is None:
            return pa.BufferReader(store.read(path, 0, file.bytes))
        return opened(store, path, file.bytes)

    def _at(self, file: IndexedFile) -> tuple[Store, str]:
        return Stores.of(self.settings).at(self.settings.hdfs.namenode + file.path)

    def _is_gone(self, file: IndexedFile) -> None:
        self.gone.append(f"the archive's file {file.path} with {file.lines} lines is gone")

    def _take(self, files: Iterable[IndexedFile], between: tuple[int, int]) -> None:
        """Look which pieces of these files to read, and in which order."""
        found: list[ArchivedPiece] = []
        for file in files:
            try:
                found += pieces(*self._at(file), file, between)
            except HdfsFileNotFound:
                self._is_gone(file)
        found.sort(key=lambda each: (each.arrival_min, each.file.partition, each.file.first, each.group or 0))
        self.files = found

    def _keep_what_kafka_has(self) -> None:
        """Leave out of the rest what Kafka does not have any more."""
        if not self.rest:
            return
        first: dict[str, int] = {}
        with Topics(self.settings) as topics, suppress(TopicMissing):
            topic_id = topics.describe(self.topic).id
            for partition in self.rest:
                log = self.logs.setdefault(int(partition), PartitionLog((Era(0, topic_id, 0, 0),)))
                if log.newest.topic_id == topic_id:
                    first[partition] = log.position(topics.bounds(self.topic, int(partition))[0])
        self.rest, self.gone = _kept(self.topic, self.rest, self.logs, first)


def _kept(
    topic: str,
    rest: Mapping[str, tuple[int, int]],
    logs: Mapping[int, PartitionLog],
    first: Mapping[str, int],
) -> tuple[dict[str, tuple[int, int]], list[str]]:
    """What is left of the rest, and what is gone. first: the position at which each log in Kafka begins."""
    kept: dict[str, tuple[int, int]] = {}
    gone: list[str] = []
    for partition, (begin, end) in rest.items():
        lost = end - begin
        if partition in first:
            log, low = logs[int(partition)], max(begin, first[partition])
            if log.records(low, end):
                kept[partition] = (low, end)
            lost = log.records(begin, min(low, end)) + sum(each.lost for each in log.holes(begin, end))
        if lost:
            gone.append(
                f"{lost:,} records of {topic}/{partition} from offset {shown(begin)} on left Kafka before "
                "they were archived"
            )
    return kept, gone
