"""The whole lines of dead letters: the table has their beginnings, the archive or Kafka the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.archive import index
from sluice.archive.index import IndexedFile
from sluice.runtime.settings import Settings
from sluice.speed.source import RecordsGone, TopicRange
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.parquet import Ranged
from sluice.storage.postgres import engine
from sluice.storage.stores import Stores
from sluice.storage.tables import eras
from sluice.storage.tables.dead_letters import DeadLetter
from sluice.transmission.line_schema import LINE_IN_RECORD

#: What of a file's rows finds a line. Older files lack LINE_IN_RECORD, which means 0.
_WANTED = ("offset", LINE_IN_RECORD, "line")


class WholeLines:
    """Reads whole lines of one topic; keeps the last row group that it read, about 64 MiB of lines.

    Letters should come by their places (`all_in_order`): then each row group is read once.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._file: IndexedFile | None = None
        self._opened: pq.ParquetFile | None = None  # None: the file is gone
        self._group = -1  # the row group of the file that `_rows` has
        self._rows = pa.table({})

    def of(self, letters: Iterable[DeadLetter]) -> Iterator[tuple[DeadLetter, bytes | None]]:
        """Each letter with its line."""
        for letter in letters:
            yield letter, self.line(letter)

    def line(self, letter: DeadLetter) -> bytes | None:
        """The letter's line; None if there is none, or if neither the archive nor Kafka has it any more.

        Raises what PostgreSQL, HDFS and Kafka raise while they are away.
        """
        if letter.unreadable is not None:
            return None
        if len(letter.line) == letter.size:
            return letter.line
        file = self._file_of(letter)
        if file is None:
            return self._in_kafka(letter)
        if file is not self._file:
            self._opened = self._open(file)
            self._file, self._group = file, -1
        return self._archived(self._opened, letter) if self._opened else None

    def _file_of(self, letter: DeadLetter) -> IndexedFile | None:
        known = self._file
        same = known is not None and known.partition == letter.partition
        if known is not None and same and known.first <= letter.offset < known.next:
            return known
        return index.file_at(engine(self._settings), self._topic, letter.partition, letter.offset)

    def _open(self, file: IndexedFile) -> pq.ParquetFile | None:
        store, path = Stores.of(self._settings).at(self._settings.hdfs.namenode + file.path)
        try:
            return pq.ParquetFile(pa.PythonFile(Ranged(store, path, file.bytes), mode="r"))
        except HdfsFileNotFound:
            return None

    def _archived(self, file: pq.ParquetFile, letter: DeadLetter) -> bytes | None:
        names = [name for name in _WANTED if name in file.schema_arrow.names]
        for group in _groups_with(file.metadata, letter.offset):
            if group != self._group:
                try:
                    self._rows = file.read_row_group(group, names, use_threads=False)
                except HdfsFileNotFound:  # deleted since it was opened
                    return None
                self._group = group
            if (line := _at(self._rows, letter)) is not None:
                return line
        return None

    def _in_kafka(self, letter: DeadLetter) -> bytes | None:
        number = str(letter.partition)
        start, end = {number: letter.offset}, {number: letter.offset + 1}
        logs = eras.logs(engine(self._settings), self._topic)
        try:
            for part in TopicRange.of(self._settings, self._topic, start, end, logs, checked=False).parts(1):
                for batch in part:
                    if (line := _at(batch, letter)) is not None:
                        return line
        except RecordsGone:
            return None
        return None


def _groups_with(metadata: pq.FileMetaData, offset: int) -> Iterator[int]:
    """The row groups that may have lines of the record at the offset; those of one may lie in several."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = (group.column(n) for n in range(group.num_columns))
        found = next(chunk.statistics for chunk in chunks if chunk.path_in_schema == "offset")
        if found is None or not found.has_min_max or found.min <= offset <= found.max:
            yield number


def _at(rows: pa.Table | pa.RecordBatch, letter: DeadLetter) -> bytes | None:
    """The letter's line among the rows of its file or of its record."""
    own = np.asarray(pc.equal(rows.column("offset"), letter.offset))
    if LINE_IN_RECORD in rows.schema.names:
        own = own & np.asarray(pc.equal(pc.fill_null(rows.column(LINE_IN_RECORD), 0), letter.line_in_record))
    found = np.flatnonzero(own)
    return rows.column("line")[int(found[0])].as_py() if len(found) else None
