"""Parquet files read in pieces, so that many processes can share the work.

A piece is a range of a file's bytes. A row group belongs to the piece that has its middle, as in Hadoop. So
the files can be dealt out by their lengths alone, and only the process that reads a piece reads the footer.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.storage.stores import Store, Stores

#: What is read of a file's end at first: the footer, unless the file has very many row groups.
TAIL_BYTES = 256 << 10
#: Writers end a column's dictionary at about this size, so one value in it can be as long.
DICTIONARY_BYTES = 1 << 20
#: Readers of tables skip names that begin so.
HIDDEN = ("_", ".")


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a file whose middle lies in its bytes [begin, end)."""

    url: str
    length: int  # of the whole file
    begin: int
    end: int


def table_files(stores: Stores, location: str) -> list[tuple[str, int]]:
    """The URL and the length of each file of a table's directory."""
    store, path = stores.at(location)
    return [
        (f"{location}/{file.name}", file.length)
        for file in store.list(path)
        if not file.directory and not file.name.startswith(HIDDEN)
    ]


def deal(files: Sequence[tuple[str, int]], shares: int) -> list[list[RowGroups]]:
    """The files as at most that many shares of equal length, each of neighbouring bytes.

    Lines that stand together are nearly of one time, so a share has few periods in common with others.
    """
    whole = sum(length for _, length in files)
    bounds = [whole * share // shares for share in range(shares + 1)]
    dealt: list[list[RowGroups]] = [[] for _ in range(shares)]
    before = 0
    for url, length in files:
        for share, pieces in zip(range(shares), dealt, strict=True):
            begin = max(0, bounds[share] - before)
            end = min(length, bounds[share + 1] - before)
            if begin < end:
                pieces.append(RowGroups(url, length, begin, end))
        before += length
    return [pieces for pieces in dealt if pieces]


def read(
    stores: Stores, pieces: Sequence[RowGroups], columns: Mapping[str, pa.DataType], lines: int, size: int
) -> Iterator[pa.RecordBatch]:
    """The rows of these columns; a column that a file lacks is null.

    A batch has up to `lines` rows, or about `size` bytes if that is less.
    """
    schema = pa.schema(list(columns.items()))
    for piece in pieces:
        store, path = stores.at(piece.url)
        with pq.ParquetFile(pa.PythonFile(Ranged(store, path, piece.length), mode="r")) as file:
            groups = [n for n in range(file.num_row_groups) if piece.begin <= _middle(file, n) < piece.end]
            there = [name for name in columns if name in file.schema_arrow.names]
            most = _most_rows(file.metadata, groups, there, lines, size)
            for batch in file.iter_batches(most, row_groups=groups, columns=there, use_threads=False):
                yield _typed(batch, schema)


def _middle(file: pq.ParquetFile, number: int) -> int:
    group = file.metadata.row_group(number)
    chunks = [group.column(n) for n in range(group.num_columns)]
    first = chunks[0]
    begin = first.dictionary_page_offset if first.has_dictionary_page else first.data_page_offset
    return int(begin) + int(sum(chunk.total_compressed_size for chunk in chunks)) // 2


def _most_rows(
    metadata: pq.FileMetaData, groups: Sequence[int], names: Sequence[str], lines: int, size: int
) -> int:
    """How many rows of these columns have at most `size` bytes, or `lines` if that is less.

    A column's pages are as long as its values, except with a dictionary: each row may name a value that is as
    long as all of it, and it is not longer than its column.
    """
    widest = 1.0
    for group in map(metadata.row_group, groups):
        chunks = [group.column(n) for n in range(group.num_columns)]
        widths = [
            min(DICTIONARY_BYTES, chunk.total_uncompressed_size)
            if chunk.has_dictionary_page and chunk.physical_type == "BYTE_ARRAY"
            else chunk.total_uncompressed_size / max(1, group.num_rows)
            for chunk in chunks
            if chunk.path_in_schema in names
        ]
        widest = max(widest, sum(widths))
    return max(1, min(lines, int(size / widest)))


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            batch.column(field.name).cast(field.type)
            if field.name in batch.schema.names
            else pa.nulls(len(batch), field.type)
            for field in schema
        ],
        schema=schema,
    )


class Ranged(io.RawIOBase):
    """A file of a store as one that can be read at any place; its end is read once."""

    def __init__(self, store: Store, path: str, length: int) -> None:
        self._store, self._path, self._length = store, path, length
        self._at = 0
        self._tail: bytes | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """`size` bytes, or fewer at the end. Raises OSError if the store has fewer than the file had."""
        left = max(0, self._length - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        begin = self._at
        self._at += wanted
        if begin >= self._tail_begin:
            if self._tail is None:
                self._tail = self._fetch(self._tail_begin, self._length - self._tail_begin)
            return self._tail[begin - self._tail_begin :][:wanted]
        return self._fetch(begin, wanted)

    @property
    def _tail_begin(self) -> int:
        return max(0, self._length - TAIL_BYTES)

    def _fetch(self, begin: int, size: int) -> bytes:
        data = self._store.read(self._path, begin, size) if size else b""
        if len(data) != size:
            raise OSError(f"{self._path}: {len(data)} of the {size} bytes from {begin} on are there")
        return data
