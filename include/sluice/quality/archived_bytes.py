"""Which bytes of the front-ends' files the archive has, from its own files: the byte ledger's other side."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.archive.newest_files import ArrivedFile, newest_first
from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from sluice.speed.ledger import ByteLedger, File
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.parquet import RowGroups, read
from sluice.storage.postgres import engine
from sluice.storage.stores import Stores
from sluice.transmission.line_schema import HOST, LINE_SCHEMA, SRC_FILE, SRC_OFFSET

log = logging.getLogger(__name__)

#: Files that arrived so long before the time that is asked for are read, too: of two collectors that lead to
#: Kafka one may be behind the other.
MARGIN_MS = 3_600_000
#: What is held of an archive file at a time.
ROWS, SIZE = 100_000, 32 << 20

_COLUMNS = {name: LINE_SCHEMA.field(name).type for name in (HOST, SRC_FILE, SRC_OFFSET, "arrival", "line")}


class ArchivedBytes:
    """What the archive has of some front-end files, above the byte from which on it was looked for."""

    def __init__(self) -> None:
        self._has = ByteLedger()
        self._oldest: dict[File, int] = {}  # when the first of a file's lines came, of those that were read
        self._arrival = 0

    @classmethod
    def read(
        cls, settings: Settings, topic: str, files: Mapping[File, int], arrival: int = 0
    ) -> ArchivedBytes:
        """Read the archive backwards from its newest file.

        files: with the time (ms since the epoch) before which no line of it can have come; 0: not known.
        arrival: what is looked for came after this time (ms since the epoch). So a file's lines need not be
        read any more once one of them is found that came before; if there is none, it is looked for back to
        the file's own time. With 0 all of the archive is read. A file of the archive that is gone or damaged
        is left out.
        """
        found = cls()
        found._arrival = arrival
        for each in newest_first(engine(settings), topic):
            last = each.arrival_max + MARGIN_MS
            if arrival and last < arrival and all(found._settled(key) or last < files[key] for key in files):
                break
            for lines in _lines(settings, each):
                found._add(lines)
        return found

    def holes(self, host: str, src_file: str, size: int) -> Ints:
        """What the archive lacks of the file's first `size` bytes, as rows of (start, end)."""
        found = self._has.holes(host, src_file, size)
        if self._settled((host, src_file)) and len(found) and found[0, 0] == 0:
            return found[1:]  # what came before was not read
        return found

    def _settled(self, file: File) -> bool:
        return self._oldest.get(file, self._arrival + 1) <= self._arrival

    def _add(self, lines: pa.RecordBatch) -> None:
        starts = lines.column(SRC_OFFSET)
        lengths = pc.binary_length(lines.column("line")).cast(pa.int64()).to_numpy(zero_copy_only=False)
        ends = starts.fill_null(0).to_numpy(zero_copy_only=False) + lengths + 1
        self._has.add(lines.column(HOST), lines.column(SRC_FILE), starts, np.asarray(ends, np.int64))
        for host, src_file, arrival in _oldest(lines):
            before = self._oldest.get((host, src_file), arrival)
            self._oldest[host, src_file] = min(before, arrival)


def _oldest(lines: pa.RecordBatch) -> Iterator[tuple[str, str, int]]:
    """Each file in these lines, and when its first line came."""
    table = pa.Table.from_batches([lines]).group_by([HOST, SRC_FILE]).aggregate([("arrival", "min")])
    for row in table.to_pylist():
        if row[HOST] is not None and row[SRC_FILE] is not None:
            yield row[HOST], row[SRC_FILE], row["arrival_min"]


def _lines(settings: Settings, file: ArrivedFile) -> Iterator[pa.RecordBatch]:
    pieces = [RowGroups(settings.hdfs.namenode + file.path, file.bytes, 0, file.bytes)]
    try:
        yield from read(Stores.of(settings), pieces, _COLUMNS, ROWS, SIZE)
    except (HdfsFileNotFound, pa.ArrowException, OSError) as error:
        log.warning("%s is left out: %s; `sluice archive verify` says more", file.path, error)
