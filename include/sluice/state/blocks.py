"""State in blocks: the partial aggregates of many series under one name.

They are the HBase rows of paper 000, made few. A block holds the series of one task version and period whose
keys hash into one of `layout` buckets. It stays below `LIMIT` bytes: when a block outgrows this, the whole
period moves to a layout of more buckets, under new names (the layout is part of the name). A single series
that is larger than the limit stays whole.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.engine.groups import code, group
from sluice.engine.merge import merge_numbered
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import (
    Failures,
    TasksFailed,
    TooManySeries,
    Version,
    each_or_all,
    reason,
    versions_of,
)
from sluice.metrics import accumulator_columns
from sluice.runtime.arrays import Ints
from sluice.state.portions import portions
from sluice.storage.commits import PeriodKey

#: Each batch that touches a block reads and writes it whole. This is small enough for that to take about a
#: millisecond, and large enough for thousands of series to be one HBase cell.
LIMIT = 256 << 10
_MAX_LAYOUT = 1 << 16
#: So many bytes of several versions are unpacked at a time; in memory they are a few times as large.
BYTES_A_MERGE = 64 << 20
#: A batch may touch so many bytes of one version: far more than 100,000 series need, unless each is a large
#: sketch.
MOST_BYTES = 512 << 20
#: Rows above which lz4 pays: 3,000 series of paths take 78 KB instead of 252 KB for 0.1 ms more.
_COMPRESS = 64


class BadBlock(ValueError):
    """A block's name or content that cannot be read."""


class StateTooLarge(RuntimeError):
    """A task's state is larger than the platform allows."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the state of the periods that one batch touched has {size >> 20} MiB, {MOST_BYTES >> 20} are "
            "allowed: ask for fewer series (filter, or take out a dimension) or fewer sketched metrics"
        )


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

    @classmethod
    def parse(cls, row: str) -> BlockId:
        try:
            label, period_start, layout, bucket = row.split("/")
            task_id, version = label.split("v")
            return cls(int(task_id), int(version), int(period_start), int(layout), int(bucket))
        except ValueError:
            raise BadBlock(
                f"{row!r} names no block: expected task, period, layout, bucket as in 3v2/1431857100000/4/1"
            ) from None


@dataclass(frozen=True)
class Changes:
    """What merging a batch into the state changes."""

    blocks: dict[BlockId, bytes]  # new contents, of old and new blocks
    removed: list[BlockId]  # blocks of outgrown layouts
    touched: pa.Table  # PARTIALS: the merged state of each series that the batch touched


Load = Callable[[Sequence[BlockId]], Mapping[BlockId, bytes]]


def merge_into_blocks(
    partials: pa.Table, layouts: Mapping[PeriodKey, int], load: Load, series: int | None = None
) -> Changes:
    """Merge a batch's PARTIALS (merged or not) into the blocks of state.

    The function is pure except for `load`.

    `layouts`: the current layout of each period that has blocks. `load`: returns the contents of blocks that
    exist, by name. It is called once for the blocks touched, and once more if some outgrew the limit.
    `series`: how many series a period may have (see `_too_many`).

    Raises TasksFailed, naming the versions that cannot be merged, have too many series or too large a state.
    """
    if partials.num_rows == 0:
        return Changes({}, [], partials_schema().empty_table())
    ids = sorted(set(_assign(partials, layouts)[1]))
    state = _Loading(load)
    sizes: Counter[Version] = Counter()
    for block, data in state(ids).items():
        sizes[block.period[:2]] += len(data)
    failures: Failures = {v: reason(StateTooLarge(size)) for v, size in sizes.items() if size > MOST_BYTES}
    parts: list[Changes] = []
    for versions in _together(partials, sizes):
        own = partials if versions is None else _only(partials, versions)
        some = [block for block in ids if versions is None or block.period[:2] in versions]
        try:
            parts.append(_merge_into(own, some, layouts, state, series))
        except TasksFailed as failed:
            failures |= failed.failures
    if failures:
        raise TasksFailed(failures)
    return Changes(
        {block: data for part in parts for block, data in part.blocks.items()},
        [block for part in parts for block in part.removed],
        pa.concat_tables([part.touched for part in parts]),
    )


class _Loading:
    """Contents of blocks, each loaded once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._loaded: dict[BlockId, bytes] = {}
        self._asked: set[BlockId] = set()

    def __call__(self, ids: Sequence[BlockId]) -> dict[BlockId, bytes]:
        """The contents of those blocks that exist."""
        new = [block for block in ids if block not in self._asked]
        if new:
            self._loaded |= self._load(new)
            self._asked.update(new)
        return {block: self._loaded[block] for block in ids if block in self._loaded}


def _together(partials: pa.Table, sizes: Mapping[Version, int]) -> Iterator[set[Version] | None]:
    """Versions whose blocks and new rows have about BYTES_A_MERGE together; None: all at once."""
    if sum(sizes.values()) + partials.nbytes <= BYTES_A_MERGE:
        yield None
        return
    rows = versions_of(partials.select(["task_id", "version"]))
    each_row = partials.nbytes / partials.num_rows
    for some in portions(
        rows, lambda own: sizes.get(own[0], 0) + int(each_row * own[1].num_rows), BYTES_A_MERGE
    ):
        yield {version for version, _ in some}


def _only(table: pa.Table, versions: set[Version]) -> pa.Table:
    labels = table.column("task_id").to_numpy().astype(np.int64) << 32 | table.column("version").to_numpy()
    wanted = np.array([task << 32 | version for task, version in versions], np.int64)
    return table.filter(pa.array(np.isin(labels, wanted)))


def _merge_into(
    partials: pa.Table,
    ids: Sequence[BlockId],
    layouts: Mapping[PeriodKey, int],
    load: _Loading,
    series: int | None,
) -> Changes:
    """`merge_into_blocks` for the versions that are merged at once."""
    merged, numbers = _merged(pa.concat_tables([partials, unpack(load(ids))]))
    if series is not None and (failures := _too_many(merged, ids, series)):
        raise TasksFailed(failures)
    touched = merged.take(pa.array(np.unique(numbers[: partials.num_rows])))
    blocks = _pack_all(merged, layouts)
    outgrown = _outgrown(blocks)
    if not outgrown:
        return Changes(blocks, [], touched)
    # The outgrown periods are read whole and laid out again. Blocks share no series, so nothing has to be
    # merged.
    old = [BlockId.of(p, layouts.get(p, 1), n) for p in sorted(outgrown) for n in range(layouts.get(p, 1))]
    loaded = load(old)
    written = {block: data for block, data in blocks.items() if block.period in outgrown}
    whole = unpack(loaded | written)
    grown = dict(layouts)
    while outgrown:
        grown |= outgrown
        new = _pack_all(whole, grown)
        outgrown = _outgrown(new)
    kept = {block: data for block, data in blocks.items() if block not in written}
    return Changes(kept | new, [block for block in old if block in loaded], touched)


def _merged(whole: pa.Table) -> tuple[pa.Table, Ints]:
    done, failures = each_or_all(merge_numbered, whole)
    if failures:
        raise TasksFailed(failures)
    return done[0]


def _too_many(merged: pa.Table, ids: Sequence[BlockId], limit: int) -> Failures:
    """The versions with too many series in a period, judged by the blocks that a batch touched.

    A batch may touch only a few of a period's buckets. A series' bucket is as good as random, so the number
    of all series is estimated from the touched buckets. The estimate less four standard errors is compared
    with the limit, so a task within the limit is never set aside. A task beyond it is set aside when a batch
    touches all buckets at the latest, and a batch that brings many series does. This costs no read.
    """
    touched = Counter(block.period for block in ids)
    layouts = {block.period: block.layout for block in ids}
    failures: Failures = {}
    names, numbers = periods(merged)
    for period, rows in zip(names, np.bincount(numbers, minlength=len(names)).tolist(), strict=True):
        share = touched[period] / layouts[period]
        certain = rows / share - 4 * math.sqrt(rows * (1 - share)) / share
        if certain > limit:
            failures[period[:2]] = reason(TooManySeries(round(rows / share), limit))
    return failures


def pack(table: pa.Table) -> bytes:
    """A block's rows (PARTIALS) as an Arrow IPC stream of keys and the accumulators in use."""
    used = [name for name in accumulator_columns() if table.column(name).null_count < table.num_rows]
    rows = table.select(["key", *used])
    options = pa.ipc.IpcWriteOptions(compression="lz4" if table.num_rows > _COMPRESS else None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def unpack(blocks: Mapping[BlockId, bytes]) -> pa.Table:
    """The rows (PARTIALS) of blocks, one block after the other."""
    alike: dict[tuple[str, ...], list[tuple[BlockId, pa.Table]]] = {}
    for block, data in blocks.items():
        try:
            rows = pa.ipc.open_stream(data).read_all()
        except pa.ArrowInvalid as error:
            raise BadBlock(
                f"block {block.row} is damaged ({error}): restore it from a backup of HBase"
            ) from None
        alike.setdefault(tuple(rows.schema.names), []).append((block, rows))
    return pa.concat_tables([partials_schema().empty_table(), *(_name(group) for group in alike.values())])


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


def _outgrown(blocks: Mapping[BlockId, bytes]) -> dict[PeriodKey, int]:
    """The periods with a block over the limit that can be split, and the layout that they need."""
    layouts: dict[PeriodKey, int] = {}
    for block, data in blocks.items():
        divisible = block.layout < _MAX_LAYOUT and len(data) > LIMIT
        if divisible and unpack({block: data}).num_rows > 1:
            # To about half the limit, so that the next split is a while away.
            wanted = block.layout << (2 * len(data) // LIMIT).bit_length()
            layouts[block.period] = max(layouts.get(block.period, 1), min(wanted, _MAX_LAYOUT))
    return layouts


def bucket_hash(keys: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """A 64-bit hash of each key, which is always the same on every machine."""
    hashes = (hashlib.blake2b(k.encode(), digest_size=8).digest() for k in keys.to_pylist())
    return np.frombuffer(b"".join(hashes), np.dtype("<u8"))


def _assign(table: pa.Table, layouts: Mapping[PeriodKey, int]) -> tuple[Ints, list[BlockId]]:
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


def periods(table: pa.Table) -> tuple[list[PeriodKey], Ints]:
    """The periods that the rows of PARTIALS are in, and which of them each row is in."""
    if not table.num_rows:
        return [], np.empty(0, np.int64)
    whole = table.select(["task_id", "version", "period_start"]).combine_chunks()
    coded = [code(column.chunk(0)) for column in whole.columns]
    groups = group([c for c, _ in coded], table.num_rows)
    values = (d.take(pa.array(c)).to_pylist() for (_, d), c in zip(coded, groups.codes, strict=True))
    return list(zip(*values, strict=True)), groups.numbers


def _pack_all(table: pa.Table, layouts: Mapping[PeriodKey, int]) -> dict[BlockId, bytes]:
    numbers, ids = _assign(table, layouts)
    ordered = table.take(pa.array(np.argsort(numbers, kind="stable"))).combine_chunks()
    ends = np.bincount(numbers, minlength=len(ids)).cumsum().tolist()
    starts = [0, *ends[:-1]]
    return {i: pack(ordered.slice(a, b - a)) for i, a, b in zip(ids, starts, ends, strict=True)}
