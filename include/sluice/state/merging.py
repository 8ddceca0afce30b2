"""A batch's partial aggregates merged into the blocks of state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sluice.engine.merge import merge_numbered
from sluice.engine.set_aside import (
    Failures,
    TasksFailed,
    TooManySeries,
    Version,
    each_or_all,
    reason,
    versions_of,
)
from sluice.runtime.arrays import Ints
from sluice.state.blocks import BlockId, pack, pack_all, periods, unpack, unpack_touched
from sluice.state.deltas import apart, combined, newest
from sluice.state.portions import portions
from sluice.storage.tables.epochs import PeriodKey

#: A batch that touches a block reads and writes it whole, unless it takes a delta. This is small enough for
#: that to take about a millisecond, and large enough for thousands of series to be one HBase cell.
LIMIT = 256 << 10
_MAX_LAYOUT = 1 << 16
#: About how many bytes of several versions are unpacked at a time; in memory they are a few times as large.
BYTES_A_MERGE = 64 << 20
#: Most bytes of one version that a batch may touch: far more than 100,000 series need, unless each is a large
#: sketch.
MOST_BYTES = 512 << 20


class StateTooLarge(RuntimeError):
    """A task's state is larger than the platform allows."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the state of the periods that one batch touched has {size >> 20} MiB, {MOST_BYTES >> 20} are "
            "allowed: ask for fewer series (filter, or take out a dimension) or fewer sketched metrics"
        )


@dataclass(frozen=True)
class Changes:
    """What merging a batch into the state changes."""

    blocks: dict[BlockId, bytes]  # new contents, of old and new blocks
    removed: list[BlockId]  # blocks of outgrown layouts
    outgrown: set[PeriodKey]  # periods that need a wider layout and were not whole
    deltas: dict[BlockId, bytes] = field(default_factory=dict)  # what is added to other old blocks

    @property
    def written(self) -> dict[BlockId, bytes]:
        """The contents of all columns that are to be written."""
        return self.blocks | self.deltas


#: The contents of blocks that exist, by name.
Load = Callable[[Sequence[BlockId]], Mapping[BlockId, bytes]]


@dataclass(frozen=True)
class Touch:
    """Notes in each block which commit touched a series last.

    seq: the commit that is made. before: the commit of a block's base, for series in blocks that were
    written without this note. large: the periods whose blocks take deltas, and about how many bytes a block
    of each has.
    """

    seq: int
    before: Callable[[BlockId], int]
    large: Mapping[PeriodKey, int] = field(default_factory=dict)


def merge_into_blocks(
    partials: pa.Table,
    layouts: Mapping[PeriodKey, int],
    load: Load,
    series: int | None = None,
    *,
    touch: Touch | None = None,
    spread: Collection[PeriodKey] = (),
) -> Changes:
    """Merge a batch's PARTIALS (merged or not) into the blocks of state.

    The function is pure except for `load`.

    `layouts`: the current layout of each period that has blocks. `load`: returns the contents of blocks that
    exist, by name. It is called once for the blocks touched that take no delta, and again if some outgrew the
    limit. `series`: how many series a period may have (see `_too_many`). `spread`: the periods of which only
    a part is here, because others merge their other blocks. They cannot be laid out again.

    Raises TasksFailed, naming the versions that cannot be merged, have too many series or too large a state.
    """
    if partials.num_rows == 0:
        return Changes({}, [], set())
    large = touch.large if touch is not None else {}
    whole, ids, deltas = apart(partials, layouts, touch.seq if touch is not None else 0, large)
    state = _Loading(load, touch)
    sizes = _by_version({block: len(data) for block, data in state(ids).items()})
    failures = _too_large(sizes + _by_version({block: large[block.period] for block in deltas}))
    parts: list[Changes] = []
    for versions in _together(whole, sizes):
        own = whole if versions is None else _only(whole, versions)
        some = [block for block in ids if versions is None or block.period[:2] in versions]
        try:
            parts.append(_Merge(layouts, state, series, spread)(own, some))
        except TasksFailed as failed:
            failures |= failed.failures
    if failures:
        raise TasksFailed(failures)
    changes = Changes(
        {block: data for part in parts for block, data in part.blocks.items()},
        [block for part in parts for block in part.removed],
        {period for part in parts for period in part.outgrown},
        deltas,
    )
    grown = {block.period for block in changes.blocks if block.layout != layouts.get(block.period, 1)}
    if touch is not None and not grown.isdisjoint(block.period for block in deltas):
        # What the deltas add must be laid out again with the rest of their periods.
        left = replace(touch, large={period: size for period, size in large.items() if period not in grown})
        return merge_into_blocks(partials, layouts, load, series, touch=left, spread=spread)
    return changes


def _by_version(sizes: Mapping[BlockId, int]) -> Counter[Version]:
    found: Counter[Version] = Counter()
    for block, size in sizes.items():
        found[block.period[:2]] += size
    return found


def _too_large(sizes: Mapping[Version, int]) -> Failures:
    return {version: reason(StateTooLarge(size)) for version, size in sizes.items() if size > MOST_BYTES}


class _Loading:
    """Contents of blocks, each loaded once."""

    def __init__(self, load: Load, touch: Touch | None) -> None:
        self._load = load
        self.touch = touch
        self._loaded: dict[BlockId, bytes] = {}
        self._asked: set[BlockId] = set()

    def __call__(self, ids: Sequence[BlockId]) -> dict[BlockId, bytes]:
        """The contents of those blocks that exist."""
        new = [block for block in ids if block not in self._asked]
        if new:
            self._loaded |= self._load(new)
            self._asked.update(new)
        return {block: self._loaded[block] for block in ids if block in self._loaded}

    def rows(self, ids: Sequence[BlockId]) -> tuple[pa.Table, Ints]:
        """The rows (PARTIALS) of those blocks that exist, and the commit that touched each last."""
        return unpack_touched(self(ids), self.touch.before if self.touch else lambda _: 0)


def _together(partials: pa.Table, sizes: Mapping[Version, int]) -> Iterator[set[Version] | None]:
    """Versions whose blocks and new rows have about BYTES_A_MERGE together; None: all at once."""
    if not partials.num_rows:
        return
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


@dataclass(frozen=True)
class _Merge:
    """`merge_into_blocks` for the versions that are merged at once."""

    layouts: Mapping[PeriodKey, int]
    load: _Loading
    series: int | None
    spread: Collection[PeriodKey]

    def __call__(self, partials: pa.Table, ids: Sequence[BlockId]) -> Changes:
        before, seqs = self.load.rows(ids)
        merged, numbers = _merged(pa.concat_tables([partials, before]))
        if self.series is not None and (failures := _too_many(merged, ids, self.series)):
            raise TasksFailed(failures)
        touched: Ints | None = None
        if self.load.touch is not None:
            touched = newest(merged.num_rows, numbers[partials.num_rows :], seqs)
            touched[numbers[: partials.num_rows]] = self.load.touch.seq
        blocks = pack_all(merged, self.layouts, touched)
        outgrown = _outgrown(blocks)
        waiting = outgrown.keys() & set(self.spread)
        growing = {period: layout for period, layout in outgrown.items() if period not in waiting}
        if not growing:
            return Changes(blocks, [], waiting)
        new, old = self._grown(blocks, growing)
        kept = {block: data for block, data in blocks.items() if block.period not in growing}
        return Changes(kept | new, old, waiting)

    def _grown(
        self, blocks: Mapping[BlockId, bytes], outgrown: dict[PeriodKey, int]
    ) -> tuple[dict[BlockId, bytes], list[BlockId]]:
        """These periods in wider layouts, and their old blocks.

        They are read whole and laid out again. Blocks share no series, so only deltas have to be merged.
        """
        widths = {period: self.layouts.get(period, 1) for period in sorted(outgrown)}
        old = [BlockId.of(period, width, n) for period, width in widths.items() for n in range(width)]
        loaded = self.load(old)
        written = {block: data for block, data in blocks.items() if block.period in outgrown}
        others, before, failures = combined(*self.load.rows([each for each in old if each not in written]))
        if failures:
            raise TasksFailed(failures)
        rows, seqs = unpack_touched(written, lambda _: 0)
        whole, seqs = pa.concat_tables([others, rows]), np.concatenate([before, seqs])
        grown = dict(self.layouts)
        while outgrown:
            grown |= outgrown
            new = pack_all(whole, grown, seqs if self.load.touch else None)
            outgrown = _outgrown(new)
        # Each bucket has a block, so that one which is gone is known to be lost.
        nothing = pack(whole.slice(0, 0), seqs[:0] if self.load.touch else None)
        layouts = {block.period: block.layout for block in new}
        empty = {BlockId.of(own, n, at): nothing for own, n in layouts.items() for at in range(n)}
        return empty | new, [block for block in old if block in loaded]


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
