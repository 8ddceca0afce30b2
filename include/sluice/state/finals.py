"""Final blocks: the published accumulators of a version's periods, as columns, in HBase's table `finals`.

A block is an Arrow IPC stream of SERIES in the order of periods and values. Blocks of a range follow each
other in time, so a reader needs only those that overlap what it is asked for, and can stream them. They are
never changed: a publication writes new ones.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.lru_cache import LruCache
from sluice.state.portions import BYTES_A_GET, portions
from sluice.state.series import START
from sluice.storage.hbase import FINAL_BLOCK, FINALS, FINALS_FAMILY, HBase
from sluice.storage.tables.finals import FinalBlock, Finals

#: Uncompressed. A day of 100 series a minute has 12 blocks; a request carries several.
BLOCK_BYTES = 1 << 20
#: Blocks that were read last, unpacked. They never change, so a copy is never out of date.
CACHE_BYTES = 160 << 20


#: Unused blocks are kept this long: a reader that began before a publication may read those that it replaced.
KEPT = timedelta(minutes=30)


class FinalMissing(RuntimeError):
    """A final block is not in HBase."""

    def __init__(self, row: str) -> None:
        super().__init__(
            f"final block {row} is not in HBase: reconcile its day again, or restore it from a backup"
        )


def pack(rows: pa.Table) -> bytes:
    """SERIES as a block; columns without any value are left out."""
    used = [name for name in rows.schema.names if rows.column(name).null_count < rows.num_rows]
    whole = rows.select(used).combine_chunks()
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, whole.schema, options=options) as writer:
        writer.write_table(whole)
    return bytes(sink.getvalue())


def unpack(data: bytes, schema: pa.Schema) -> pa.Table:
    """A block as SERIES."""
    rows = pa.ipc.open_stream(data).read_all()
    given = {name: rows.column(name) for name in rows.schema.names}
    columns = [given.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in schema]
    return pa.table(columns, schema=schema)


def cut(rows: pa.Table, most: int = BLOCK_BYTES) -> Iterator[pa.Table]:
    """SERIES in order, in parts of about `most` bytes."""
    step = max(1, rows.num_rows * most // max(rows.nbytes, 1))
    for begin in range(0, rows.num_rows, step):
        part = rows.slice(begin, step)
        yield compact(part)


def compact(rows: pa.Table) -> pa.Table:
    """SERIES with dictionaries of their own values, in order, and without anything of a larger table.

    A slice would carry the values of the whole table along. In order, because neighbours then mostly have
    equal dictionaries, and a reader tries its conditions on them once.
    """
    columns = [
        _encoded(column) if pa.types.is_dictionary(column.type) else column.combine_chunks()
        for column in rows.columns
    ]
    return pa.table(columns, schema=rows.schema)


def _encoded(column: pa.ChunkedArray) -> pa.Array:
    found = column.cast(column.type.value_type).combine_chunks().dictionary_encode()
    order = pc.array_sort_indices(found.dictionary)
    places = pc.array_sort_indices(order).cast(column.type.index_type)  # the inverse of a permutation
    return pa.DictionaryArray.from_arrays(places.take(found.indices), found.dictionary.take(order))


def write(
    hbase: HBase,
    reserve: Callable[[Sequence[str]], None],
    prefix: str,
    rows: Iterable[pa.Table],
) -> tuple[FinalBlock, ...]:
    """Write tables of SERIES, each in order, as new blocks; returns them in order of time.

    `reserve` is told of their rows first, so that those of a publication that dies can be found. `prefix` is
    how their rows begin.
    """
    token, written = secrets.token_hex(8), list[FinalBlock]()
    parts = (part for table in rows if table.num_rows for part in cut(table))
    for some in portions(parts, lambda part: part.nbytes, BYTES_A_GET):
        blocks, cells = list[FinalBlock](), []
        for part in some:
            data, begins = pack(part), part.column(START)
            row = f"{prefix}/{token}/{len(written) + len(blocks)}"
            first, last = (pc.min_max(begins)[end].as_py() for end in ("min", "max"))
            blocks.append(FinalBlock(row, first, last, part.num_rows, len(data)))
            cells.append((row.encode(), {FINAL_BLOCK: data}))
        reserve([block.row for block in blocks])
        hbase.put(FINALS, cells)
        written += blocks
    return tuple(sorted(written, key=lambda block: (block.first, block.last)))


def sweep(hbase: HBase, book: Finals, kept: timedelta = KEPT) -> int:
    """Delete the topic's blocks that have been unused for a while; returns how many."""
    rows = book.take_unused(book.unused(datetime.now(UTC) - kept))
    return hbase.delete(FINALS, ((row.encode(), [FINALS_FAMILY]) for row in rows))


class FinalBlocks:
    """Reads final blocks, and keeps those that were read last. May be shared between threads."""

    def __init__(self, hbase: HBase, most: int = CACHE_BYTES) -> None:
        self._hbase = hbase
        self._kept: LruCache[str, pa.Table] = LruCache(lambda table: table.nbytes, most)
        self._reading = threading.Lock()

    def read(self, blocks: Iterable[FinalBlock], schema: pa.Schema) -> Iterator[tuple[FinalBlock, pa.Table]]:
        """The blocks as SERIES, in the order given, a few at a time. Raises FinalMissing."""
        for some in portions(blocks, lambda block: block.bytes, BYTES_A_GET):
            found = {block.row: self._kept.get(block.row) for block in some}
            if None in found.values():
                with self._reading:  # another thread may have read them meanwhile
                    found |= self._load([block for block in some if found[block.row] is None], schema)
            for block in some:
                yield block, found.pop(block.row)

    def _load(self, blocks: Sequence[FinalBlock], schema: pa.Schema) -> dict[str, pa.Table]:
        found = {block.row: self._kept.get(block.row) for block in blocks}
        cold = [block for block in blocks if found[block.row] is None]
        rows = self._hbase.get(FINALS, [each.row.encode() for each in cold], [FINALS_FAMILY])
        for block in cold:
            data = rows.get(block.row.encode(), {}).get(FINAL_BLOCK)
            if data is None:
                raise FinalMissing(block.row)
            found[block.row] = unpack(data, schema)
            self._kept.put(block.row, found[block.row])
        return found
