"""The Parquet files of a partition of `task_results`, written by Spark's Python workers.

A worker writes under a temporary name of its own, which readers of tables skip, and Spark brings that name to
the driver. Spark gives the driver one result of each task, whatever was repeated; only the files that these
results name are renamed to where readers find them. A process that Spark has given up may still write, but
nobody renames its files. Nobody reads the directory before the partition points at it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.batch.day_results import RESULTS
from sluice.engine.batches import gathered
from sluice.storage.stores import Stores

#: What a worker says of a file: its name, and how many rows it has.
WRITTEN = pa.schema([("file", pa.string()), ("rows", pa.int64())])
TEMPORARY = "_temporary"
#: A row group ends at GROUP_ROWS rows or GROUP_BYTES in memory, a file at FILE_BYTES of Parquet.
GROUP_ROWS, GROUP_BYTES = 262_144, 128 << 20
FILE_BYTES = 128 << 20

#: The columns that queries filter by; statistics of the maps would help nobody.
FILTERED = ["task", "task_id", "version", "period_start", "series"]


class FileLost(RuntimeError):
    """A file that a worker wrote is not there any more."""


@dataclass(frozen=True)
class ResultFiles:
    """A directory for RESULTS (`location` is its URL)."""

    stores: Stores
    location: str

    def begin(self) -> None:
        """Make the directory, empty."""
        store, path = self.stores.at(self.location)
        store.delete(path, recursive=True)
        store.make_directory(path)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write RESULTS under temporary names, in a worker; gives WRITTEN."""
        store, path = self.stores.at(self.location)
        for data, rows in encoded(batches):
            name = f"part-{secrets.token_hex(16)}.parquet"
            store.write(f"{path}/{TEMPORARY}/{name}", data)
            yield pa.RecordBatch.from_pylist([{"file": name, "rows": rows}], WRITTEN)

    def publish(self, names: Iterable[str]) -> None:
        """Show these files to readers, and no others. Without any, write one without rows."""
        store, path = self.stores.at(self.location)
        names = list(names)
        if not names:
            nothing = pa.RecordBatch.from_pylist([], RESULTS)
            names = [batch.column("file")[0].as_py() for batch in self.write([nothing])]
        for name in names:
            target = f"{path}/{name}"
            # A file whose first rename succeeded, though its answer was lost, is there by now.
            if not store.rename(f"{path}/{TEMPORARY}/{name}", target) and store.status(target) is None:
                raise FileLost(f"{self.location}/{TEMPORARY}/{name} is gone")
        store.delete(f"{path}/{TEMPORARY}", recursive=True)


def encoded(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[bytes, int]]:
    """RESULTS as Parquet files of about FILE_BYTES, and the number of their rows."""
    sink, writer, rows = pa.BufferOutputStream(), None, 0
    for group in gathered(batches, GROUP_ROWS, GROUP_BYTES):
        writer = writer or pq.ParquetWriter(
            sink, RESULTS, compression="zstd", store_schema=False, write_statistics=FILTERED
        )
        table = pa.Table.from_batches(group)
        writer.write_table(table, row_group_size=GROUP_ROWS)
        rows += table.num_rows
        if sink.tell() >= FILE_BYTES:
            writer.close()
            yield bytes(sink.getvalue()), rows
            sink, writer, rows = pa.BufferOutputStream(), None, 0
    if writer is not None:
        writer.close()
        yield bytes(sink.getvalue()), rows
