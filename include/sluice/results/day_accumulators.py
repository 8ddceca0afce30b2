"""A day's accumulators of all versions, as the batch layer wrote them: Parquet files in HDFS."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import versions_of
from sluice.metrics import accumulator_columns
from sluice.storage.hive import Hive
from sluice.storage.tables.commits import Version

FILES = """
SELECT DISTINCT _metadata.file_path FROM task_results WHERE topic = %(topic)s AND day = %(day)s
"""
_COLUMNS = ["task_id", "version", "period_start", "series", "accumulators"]
#: A version's rows are handed over when they exceed FLUSH_BYTES, or at the end.
FLUSH_BYTES = 64 << 20
_ROWS = 50_000
_EIGHT = 8


def files(hive: Hive, topic: str, day: date) -> list[str]:
    """The paths in HDFS of the files of the day's partition, as Hive has it now."""
    found = hive.query(FILES, {"topic": topic, "day": day.isoformat()}).rows
    return sorted(unquote(urlsplit(name).path) for (name,) in found)


def day_partials(
    read: Callable[[str], bytes], paths: Iterable[str], wanted: Mapping[Version, range]
) -> Iterator[tuple[Version, pa.Table]]:
    """PARTIALS of each wanted version's periods that start in its range (ms).

    A version comes in one table, or in several if it is large. A series and period is in one of them.
    """
    kept: dict[Version, list[pa.Table]] = {}
    sizes: dict[Version, int] = {}
    for path in paths:
        file = pq.ParquetFile(io.BytesIO(read(path)))
        for batch in file.iter_batches(_ROWS, columns=_COLUMNS):
            for version, rows in _wanted(pa.Table.from_batches([batch]), wanted):
                kept.setdefault(version, []).append(rows)
                sizes[version] = sizes.get(version, 0) + rows.nbytes
                if sizes[version] > FLUSH_BYTES:
                    yield version, pa.concat_tables(kept.pop(version))
                    sizes[version] = 0
    for version, tables in kept.items():
        yield version, pa.concat_tables(tables)


def _wanted(rows: pa.Table, wanted: Mapping[Version, range]) -> Iterator[tuple[Version, pa.Table]]:
    for version, own in versions_of(rows) if rows.num_rows else ():
        starts = wanted.get(version)
        if starts is None:
            continue
        begins = pc.divide(own.column("period_start").cast(pa.timestamp("us")).cast(pa.int64()), 1000)
        inside = pc.and_(pc.greater_equal(begins, starts.start), pc.less(begins, starts.stop))
        part = own.set_column(2, "period_start", begins).filter(inside)
        if part.num_rows:
            yield version, _partials(part.combine_chunks())


def _partials(rows: pa.Table) -> pa.Table:
    """PARTIALS of rows whose accumulators are maps."""
    stored = rows.column("accumulators").chunk(0)
    columns = {
        "task_id": rows.column("task_id"),
        "version": rows.column("version"),
        "period_start": rows.column("period_start"),
        "key": rows.column("series"),
    }
    for name, kind in accumulator_columns().items():
        columns[name] = typed(pc.map_lookup(stored, name, "first"), kind)
    return pa.table([columns[name] for name in partials_schema().names], schema=partials_schema())


def typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """An accumulator's column as it is counted with.

    It is stored as bytes of its own, or as numbers in 8 little-endian bytes.
    """
    if pa.types.is_binary(kind):
        return column.cast(kind)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    packed = column.drop_null()
    whole = b"".join(packed.to_pylist()) if len(packed) else b""
    numbers = np.zeros(len(column), "<i8" if pa.types.is_integer(kind) else "<f8")
    numbers[there] = np.frombuffer(whole, numbers.dtype, len(whole) // _EIGHT)
    return pa.array(numbers, mask=~there).cast(kind)
