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
from sluice.storage.postgres import engine
from sluice.storage.stores import Stores
from sluice.storage.tables import eras
from sluice.storage.tables.dead_letters import DeadLetter
from sluice.transmission.line_schema import LINE_IN_RECORD

#: What of a file's rows finds a line. Older files lack LINE_IN_RECORD, which means 0.
_WANTED = ("offset", LINE_IN_RECORD, "line")


class WholeLines:
    """Reads whole lines of one topic; keeps the last file that it read, which has at most 64 MiB of lines.

    Letters should come by their places (`all_in_order`): then each file is read once.
    """

    def __init__(self, settings: Settings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._file: IndexedFile | None = None
        self._rows = pa.table({"offset": [], "line": []})

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
            self._rows = self._read(file)
            self._file = file
        return _at(self._rows, letter)

    def _file_of(self, letter: DeadLetter) -> IndexedFile | None:
        known = self._file
        same = known is not None and known.partition == letter.partition
        if known is not None and same and known.first <= letter.offset < known.next:
            return known
        return index.file_at(engine(self._settings), self._topic, letter.partition, letter.offset)

    def _read(self, file: IndexedFile) -> pa.Table:
        store, path = Stores.of(self._settings).at(self._settings.hdfs.namenode + file.path)
        try:
            data = store.read(path, 0, file.bytes)
        except HdfsFileNotFound:
            return pa.table({"offset": [], "line": []})
        with pq.ParquetFile(pa.BufferReader(data)) as parquet:
            names = [name for name in _WANTED if name in parquet.schema_arrow.names]
            return parquet.read(names, use_threads=False)

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


def _at(rows: pa.Table | pa.RecordBatch, letter: DeadLetter) -> bytes | None:
    """The letter's line among the rows of its file or of its record."""
    own = np.asarray(pc.equal(rows.column("offset"), letter.offset))
    if LINE_IN_RECORD in rows.schema.names:
        own = own & np.asarray(pc.equal(pc.fill_null(rows.column(LINE_IN_RECORD), 0), letter.line_in_record))
    found = np.flatnonzero(own)
    return rows.column("line")[int(found[0])].as_py() if len(found) else None
