"""What of the archive is read at once: a whole file of the archiver's, or one row group of a merged one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.archive import layout
from sluice.archive.footer import of_opened
from sluice.archive.index import IndexedFile
from sluice.storage.parquet import Ranged
from sluice.storage.stores import Store


@dataclass(frozen=True)
class ArchivedPiece:
    """Some lines of a file. bytes: as they are stored. group: the row group; None: the whole file."""

    file: IndexedFile
    arrival_min: int  # ms since the epoch
    lines: int
    bytes: int
    group: int | None = None


def opened(store: Store, path: str, length: int) -> pa.PythonFile:
    """A file of that many bytes, to read parts of."""
    return pa.PythonFile(Ranged(store, path, length), mode="r")


def pieces(store: Store, path: str, file: IndexedFile, between: tuple[int, int]) -> Iterator[ArchivedPiece]:
    """The file's pieces that can have lines of the event times [since, until), ms.

    A row group of a merged file has as many lines as a file of the archiver's at most, so a piece can be held
    in memory. Raises HdfsFileNotFound.
    """
    if layout.next_of(layout.name_in(file.path)) is None:
        yield ArchivedPiece(file, file.arrival_min, file.lines, file.bytes)
        return
    source = opened(store, path, file.bytes)
    spans = of_opened(path, source).groups
    metadata = pq.read_metadata(source)
    at = metadata.schema.names.index("arrival")
    for number, span in enumerate(spans):
        if span is None or span[0] >= between[1] or span[1] < between[0]:
            continue
        group = metadata.row_group(number)
        said = group.column(at).statistics
        size = sum(group.column(n).total_compressed_size for n in range(group.num_columns))
        arrival = file.arrival_min if said is None or said.min is None else int(said.min)
        yield ArchivedPiece(file, arrival, group.num_rows, size, number)
