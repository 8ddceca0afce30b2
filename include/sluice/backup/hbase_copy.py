"""HBase's tables as Arrow streams of cells, in the order of their rows, and back again.

A scan takes as long as the table is large, and the speed layer writes meanwhile. For the state that is no
harm: its columns are named by their commit and token and never change, so a second scan of the names alone
finds those that came since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from sluice.backup.parts import BackupParts
from sluice.storage.hbase import NAMES_ONLY, RESULTS, Cells, HBase

Say = Callable[[str], None]
Rows = Iterable[tuple[bytes, Cells]]

CELLS = pa.schema([("row", pa.binary()), ("column", pa.binary()), ("value", pa.binary())])
#: Of cells in one batch of a part.
BATCH_BYTES = 4 << 20
#: Rows that are read again at once; a row of large blocks has up to a MiB.
ROWS_A_GET = 32
#: The time of a restored result: before all that projectors, backfills and nights write later. They stamp
#: cells with the time of a commit, which is earlier than that of the restore. In ms.
LONG_AGO = 1
_SAID = 5_000


def export(parts: BackupParts, path: str, rows: Rows, say: Say) -> int:
    """Write the cells as a part; returns how many."""
    written = 0
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with parts.writing(path) as out, pa.ipc.new_stream(out, CELLS, options=options) as writer:
        for batch in _batches(rows):
            writer.write_batch(batch)
            written += batch.num_rows
            say(f"{written:,} cells, {out.bytes:,} bytes")
    return written


def since(hbase: HBase, table: str, known: Path) -> Iterator[tuple[bytes, Cells]]:
    """The cells that the table has beyond those in a part, which was written of the same table.

    Only names are compared: a column has the same value for ever.
    """
    earlier = names(known)
    row, columns = next(earlier, (None, set[bytes]()))
    wanted: dict[bytes, set[bytes]] = {}
    for key, cells in hbase.scan(table, row_filter=NAMES_ONLY):
        while row is not None and row < key:
            row, columns = next(earlier, (None, set[bytes]()))
        if new := cells.keys() - (columns if row == key else set[bytes]()):
            wanted[key] = new
        if len(wanted) == ROWS_A_GET:
            yield from _columns(hbase, table, wanted)
            wanted = {}
    yield from _columns(hbase, table, wanted)


def names(path: Path) -> Iterator[tuple[bytes, set[bytes]]]:
    """The rows of a part, in order, with their columns; no value is read."""
    row: bytes | None = None
    columns = set[bytes]()
    options = pa.ipc.IpcReadOptions(included_fields=[0, 1])
    with path.open("rb") as file, pa.ipc.open_stream(file, options=options) as batches:
        for batch in batches:
            for key, column in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                if row is not None and key != row:
                    yield row, columns
                    columns = set[bytes]()
                row = key
                columns.add(column)
    if row is not None:
        yield row, columns


def put_cells(hbase: HBase, table: str, path: Path, say: Say) -> int:
    """Write a part's cells into the table; returns how many. It may be repeated."""
    written = 0

    def rows() -> Iterator[tuple[bytes, Cells]]:
        nonlocal written
        with path.open("rb") as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                for row, column, value in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                    written += 1
                    if written % _SAID == 0:
                        say(f"{table}: {written:,} cells")
                    yield row, {column: value}

    hbase.put(table, rows(), timestamp=LONG_AGO if table == RESULTS else None)
    return written


def _columns(hbase: HBase, table: str, wanted: Mapping[bytes, set[bytes]]) -> Iterator[tuple[bytes, Cells]]:
    found = hbase.get(table, list(wanted)) if wanted else {}
    for row in sorted(found):
        yield row, {name: value for name, value in found[row].items() if name in wanted[row]}


def _batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    cells: list[tuple[bytes, bytes, bytes]] = []
    size = 0
    for row, own in rows:
        for column, value in sorted(own.items()):
            cells.append((row, column, value))
            size += len(row) + len(column) + len(value)
            if size >= BATCH_BYTES:
                yield _batch(cells)
                cells, size = [], 0
    if cells:
        yield _batch(cells)


def _batch(cells: list[tuple[bytes, bytes, bytes]]) -> pa.RecordBatch:
    arrays = [pa.array(column, pa.binary()) for column in zip(*cells, strict=True)]
    return pa.record_batch(arrays, schema=CELLS)
