"""State in blocks: the partial aggregates of many series under one name.

They are the HBase rows of paper 000, made few. A block holds the series of one task version and period whose
keys hash into one of `layout` buckets. It stays below `merging.LIMIT` bytes: when a block outgrows this, the
whole period moves to a layout of more buckets, under new names (the layout is part of the name). A single
series that is larger than the limit stays whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.engine.groups import code, group
from sluice.engine.schema import partials_schema
from sluice.metrics import accumulator_columns
from sluice.runtime.arrays import Ints
from sluice.storage.tables.epochs import PeriodKey

#: The column of a block with the commit that touched a series last; no accumulator has such a name.
TOUCHED = ":touched"
#: Rows above which lz4 pays: 3,000 series of paths take 78 KB instead of 252 KB for 0.1 ms more.
_COMPRESS = 64


class BadBlock(ValueError):
    """A block's content that cannot be read."""


class BlockId(NamedTuple):
    """The name of a block."""

    task_id: int
    version: int
    period_start: int  # ms since the epoch
    layout: int  # number of buckets, a power of two
    bucket: int

    @property
    def row(self) -> str:
        """Its row in `state`, e.g. ``3v2/1431857100000/4/1``."""
        return f"{self.task_id}v{self.version}/{self.period_start}/{self.layout}/{self.bucket}"

    @property
    def period(self) -> PeriodKey:
        return self.task_id, self.version, self.period_start

    @classmethod
    def of(cls, period: PeriodKey, layout: int, bucket: int) -> BlockId:
        task_id, version, period_start = period
        return cls(task_id, version, period_start, layout, bucket)


def period_prefix(period: PeriodKey) -> bytes:
    """How the rows of all blocks of a period begin, in any layout."""
    return BlockId.of(period, 0, 0).row.removesuffix("0/0").encode()


def pack(table: pa.Table, touched: Ints | None = None) -> bytes:
    """A block's rows (PARTIALS) as an Arrow IPC stream of keys and the accumulators in use.

    touched: the commit that touched each row last.
    """
    used = [name for name in accumulator_columns() if table.column(name).null_count < table.num_rows]
    rows = table.select(["key", *used])
    if touched is not None:
        rows = rows.append_column(TOUCHED, pa.array(touched))
    options = pa.ipc.IpcWriteOptions(compression="lz4" if table.num_rows > _COMPRESS else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpack(blocks: Mapping[BlockId, bytes]) -> pa.Table:
    """The rows (PARTIALS) of blocks."""
    return unpack_touched(blocks, lambda _: 0)[0]


def unpack_touched(
    blocks: Mapping[BlockId, bytes], before: Callable[[BlockId], int]
) -> tuple[pa.Table, Ints]:
    """The rows (PARTIALS) of blocks, and the commit that touched each last.

    A block may be a base and deltas, one after the other; then a series may have several rows. before: see
    `Touch`.
    """
    alike: dict[tuple[str, ...], list[tuple[BlockId, pa.Table]]] = {}
    for block, data in blocks.items():
        try:
            for rows in _streams(data):
                alike.setdefault(tuple(rows.schema.names), []).append((block, rows))
        except (pa.ArrowException, OSError) as error:
            raise BadBlock(f"block {block.row} is damaged ({error})") from None
    groups = alike.values()
    touched = [np.empty(0, np.int64), *(_touched(*one, before) for group in groups for one in group)]
    named = [partials_schema().empty_table(), *(_name(group) for group in groups)]
    return pa.concat_tables(named), np.concatenate(touched)


def _streams(data: bytes) -> Iterator[pa.Table]:
    """The Arrow IPC streams that the bytes consist of."""
    source = pa.BufferReader(data)
    while True:
        yield pa.ipc.open_stream(source).read_all()
        if source.tell() == len(data):
            return


def _touched(block: BlockId, rows: pa.Table, before: Callable[[BlockId], int]) -> Ints:
    if TOUCHED in rows.column_names:
        return np.asarray(rows.column(TOUCHED), np.int64)
    return np.full(rows.num_rows, before(block), np.int64)


def _name(blocks: list[tuple[BlockId, pa.Table]]) -> pa.Table:
    """Blocks with the same columns as one table; the parts of their names become columns."""
    rows = pa.concat_tables([table for _, table in blocks])
    sizes = [table.num_rows for _, table in blocks]
    given = {name: rows.column(name) for name in rows.schema.names}
    for part in ("task_id", "version", "period_start"):
        values = np.array([getattr(block, part) for block, _ in blocks], np.int64)
        given[part] = pa.array(np.repeat(values, sizes)).cast(partials_schema().field(part).type)
    columns = [given.get(f.name, pa.nulls(rows.num_rows, f.type)) for f in partials_schema()]
    return pa.table(columns, schema=partials_schema())


def bucket_hash(keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A 64-bit hash of each key, which is always the same on every machine."""
    hashes = (hashlib.blake2b(k.encode(), digest_size=8).digest() for k in keys.to_pylist())
    return np.frombuffer(b"".join(hashes), np.dtype("<u8"))


def assign(table: pa.Table, layouts: Mapping[PeriodKey, int]) -> tuple[Ints, list[BlockId]]:
    """Each row's block as a number, and the blocks."""
    names, own = periods(table)
    layout = np.array([layouts.get(name, 1) for name in names], np.int64)
    buckets = np.zeros(table.num_rows, np.int64)
    split = np.flatnonzero(layout[own] > 1)
    if len(split):
        hashes = bucket_hash(table.column("key").take(pa.array(split)))
        buckets[split] = (hashes % layout[own[split]].astype(np.uint64)).astype(np.int64)
    widest = int(layout.max())
    numbers, first = np.unique(own * widest + buckets, return_inverse=True)
    blocks = [BlockId.of(names[n // widest], int(layout[n // widest]), n % widest) for n in numbers.tolist()]
    return first, blocks


def pack_all(table: pa.Table, layouts: Mapping[PeriodKey, int], touched: Ints | None) -> dict[BlockId, bytes]:
    """The rows (PARTIALS) as blocks. touched: see `pack`."""
    return packed(table, *assign(table, layouts), touched)


def packed(
    table: pa.Table, numbers: Ints, ids: Sequence[BlockId], touched: Ints | None
) -> dict[BlockId, bytes]:
    """The blocks that have rows. `numbers`: which of `ids` each row is in."""
    order = np.argsort(numbers, kind="stable")
    ordered = table.take(pa.array(order)).combine_chunks()
    seqs = None if touched is None else touched[order]
    ends = np.bincount(numbers, minlength=len(ids)).cumsum().tolist()
    starts = [0, *ends[:-1]]
    return {
        block: pack(ordered.slice(begin, end - begin), None if seqs is None else seqs[begin:end])
        for block, begin, end in zip(ids, starts, ends, strict=True)
        if begin < end
    }


def periods(table: pa.Table) -> tuple[list[PeriodKey], Ints]:
    """The periods that the rows of PARTIALS are in, and which of them each row is in."""
    if not table.num_rows:
        return [], np.empty(0, np.int64)
    whole = table.select(["task_id", "version", "period_start"]).combine_chunks()
    coded = [code(column.chunk(0)) for column in whole.columns]
    groups = group([c for c, _ in coded], table.num_rows)
    values = (d.take(pa.array(c)).to_pylist() for (_, d), c in zip(coded, groups.codes, strict=True))
    return list(zip(*values, strict=True)), groups.numbers
