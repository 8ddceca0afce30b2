"""What the lines of an archive file are: whole records in order, counted row group by row group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.runtime.arrays import Ints
from sluice.transmission.line_schema import LAST_OFFSET, LINE_IN_RECORD, LINE_SCHEMA


class RecordCount:
    """Counts lines and their records; a record may go on from one table to the next."""

    def __init__(self) -> None:
        self.lines = self.records = 0
        self.first = self.next = 0  # the first line's offset, and the one after the last record
        self.sound = True  # whether the records are whole, and in order
        self._last: tuple[int, int, int] | None = None

    def add(self, table: pa.Table) -> None:
        """Count the table's lines: offset, and those of LAST_OFFSET and LINE_IN_RECORD that it has."""
        if not len(table):
            return
        offsets, ends, places = _places(table)
        if self._last is None:
            self.first, behind = int(offsets[0]), 0
        else:
            behind = 1  # the line before is looked at again, and not counted again
            arrays = zip(self._last, (offsets, ends, places), strict=True)
            offsets, ends, places = (np.append(np.int64(last), each) for last, each in arrays)
        begins = np.append(True, offsets[1:] != offsets[:-1])
        rising = np.append(True, np.where(begins[1:], offsets[1:] > ends[:-1], True)) & (ends >= offsets)
        follows = np.append(0, places[:-1] + 1)
        sound = rising & (places == np.where(begins, 0, follows))
        self.sound = self.sound and bool(sound[behind:].all())
        # A range that cannot be read counts as a record for each of its offsets.
        self.records += int((ends - offsets + 1)[behind:][begins[behind:]].sum())
        self.lines += len(table)
        self.next = int(ends[-1]) + 1
        self._last = int(offsets[-1]), int(ends[-1]), int(places[-1])

    def check(self, path: str, footer: Footer) -> None:
        """Raise UnreadableArchiveFile unless these are the lines that the footer counts."""
        inside = not self.lines or (footer.first <= self.first and self.next <= footer.next)
        if self.sound and inside and (self.lines, self.records) == (footer.lines, footer.records):
            return
        order = "in order" if self.sound else "not in order"
        raise UnreadableArchiveFile(
            path,
            f"it has {self.lines} lines of {self.records} records, {order}; its footer says {footer.lines} "
            f"lines of {footer.records} in offsets {footer.first} to {footer.next - 1}",
        )


def checked_tables(path: str, opened: pa.NativeFile, footer: Footer) -> Iterator[pa.Table]:
    """The file's lines, a row group at a time.

    Raises UnreadableArchiveFile, at the end at the latest, unless they are those that its footer counts.
    """
    found = RecordCount()
    try:
        with pq.ParquetFile(opened) as file:
            for number in range(file.num_row_groups):
                table = file.read_row_group(number, use_threads=False)
                found.add(table)
                yield table
    except (pa.ArrowException, OSError) as error:
        raise UnreadableArchiveFile(path, f"its lines cannot be read ({error})") from error
    found.check(path, footer)


def check_contents(path: str, opened: pa.NativeFile, footer: Footer) -> None:
    """Raise UnreadableArchiveFile unless the file has the lines that its footer counts, in order."""
    for _ in checked_tables(path, opened, footer):
        pass


def as_records(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """An archive file's rows as LINE_SCHEMA; what older files lack is null."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), len(batch))
    return pa.RecordBatch.from_arrays(
        [columns[f.name] if f.name in columns else pa.nulls(len(batch), f.type) for f in LINE_SCHEMA],
        schema=LINE_SCHEMA,
    )


def _places(table: pa.Table) -> tuple[Ints, Ints, Ints]:
    """Each line's offset, its record's last one, and its place in the record; older files lack columns."""
    offsets = table.column("offset").to_numpy()
    ends, places = offsets, np.zeros(len(offsets), np.int64)
    if LAST_OFFSET in table.column_names:
        ends = pc.coalesce(table.column(LAST_OFFSET), table.column("offset")).to_numpy()
    if LINE_IN_RECORD in table.column_names:
        places = table.column(LINE_IN_RECORD).fill_null(0).to_numpy()
    return offsets, ends, places
