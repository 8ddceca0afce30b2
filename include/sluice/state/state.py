"""The state of the speed layer: blocks of accumulators in HBase.

A block is never overwritten. A batch adds a column named by its sequence number and its attempt's token,
built on the *committed* columns (`storage.tables.epochs` says which columns are). The batch's commit makes
the new columns the newest. Columns that a commit replaced, or that no commit ever made true, are deleted by
the next batch that reads their row. So those who read the state as of the commit before still find theirs.
Large blocks take columns that only add to those before (`state.deltas`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.engine.schema import KEYS
from sluice.engine.set_aside import Failures
from sluice.runtime.arrays import Ints
from sluice.runtime.crash_points import crash_point
from sluice.state.blocks import BlockId, unpack_touched
from sluice.state.deltas import LARGE, block_bytes, combined
from sluice.state.portions import BYTES_A_GET, portions
from sluice.storage.hbase import STATE, STATE_FAMILY, Cells, HBase
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import (
    CommittedColumns,
    PeriodKey,
    Snapshot,
    StatePeriod,
    column,
    column_seq,
    delta_column,
    is_delta,
)

# A row has the newest column, and mostly the one that it replaced. The deltas of a large block, replaced ones
# included, have about the bytes of another one.
COLUMNS_A_ROW, COLUMNS_A_LARGE_ROW = 2, 3
# Thrift's frames stay below 16 MiB. A block mostly has less than 256 KiB.
BYTES_A_PUT = 8 << 20
BLOCKS_A_PUT = 64
# A period is laid out again a few times in its life. Several times during one read is no coincidence.
ATTEMPTS = 20


class BlockMissing(RuntimeError):
    """A committed block is not in HBase."""

    def __init__(self, block: BlockId, seq: int) -> None:
        super().__init__(
            f"block {block.row} of commit {seq} is not in HBase: either retention dropped it or another "
            "speed layer replaced it, and starting again helps; or HBase lost it: its period is set aside"
        )


class StateSuperseded(RuntimeError):
    """A batch's task runs although its commit, or a later one, was made without it."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"commit {seq} was made already: this work is of no use any more")


class Content(NamedTuple):
    """A block's committed contents: columns of its row, in order."""

    names: Sequence[bytes]
    data: bytes  # of these columns, one after the other

    @classmethod
    def of(cls, cells: Cells, names: Sequence[bytes]) -> Content:
        if len(names) == 1:  # as mostly: nothing is copied
            return cls(names, cells[names[0]])
        return cls(names, b"".join(cells[name] for name in names))

    @property
    def seq(self) -> int:
        """The commit that wrote the first of the columns, the base."""
        return column_seq(self.names[0])

    @property
    def newest(self) -> int:
        """The commit that wrote the last of the columns."""
        return column_seq(self.names[-1])


@dataclass(frozen=True)
class StateRead:
    """Blocks as of a commit or of later ones, each as of one commit."""

    snapshot: Snapshot
    blocks: dict[BlockId, Content]

    def rows(self) -> tuple[pa.Table, Ints, Failures]:
        """The blocks' rows (PARTIALS), one for each series, and which commit touched each last.

        Versions whose deltas cannot be merged with their blocks are left out, and named.
        """
        several = {block for block, content in self.blocks.items() if len(content.names) > 1}
        rows, seqs = self._unpacked(self.blocks.keys() - several)
        if not several:
            return rows, seqs, {}
        more, touched, failures = combined(*self._unpacked(several))
        return pa.concat_tables([rows, more]), np.concatenate([seqs, touched]), failures

    def series(self) -> pa.Table:
        """The names (KEYS) of the blocks' series."""
        return self._unpacked(self.blocks)[0].group_by(list(KEYS)).aggregate([])

    def _unpacked(self, wanted: Iterable[BlockId]) -> tuple[pa.Table, Ints]:
        data = {block: self.blocks[block].data for block in sorted(wanted)}
        return unpack_touched(data, lambda block: self.blocks[block].seq)


def all_blocks(snapshot: Snapshot) -> list[BlockId]:
    """Every block that the snapshot's periods can have."""
    periods = snapshot.periods.values()
    return [BlockId.of(p.key, p.layout, bucket) for p in periods for bucket in range(p.layout)]


def read_state(
    log: CommitLog,
    hbase: HBase,
    wanted: Iterable[PeriodKey],
    blocks: Callable[[Snapshot], Sequence[BlockId]] = all_blocks,
) -> StateRead:
    """Those of these blocks that exist, as of the newest commit.

    Each block is as of the snapshot's commit, or of a later one that was made while this read. `blocks` says
    which are wanted, given the periods' layouts. Raises BlockMissing.
    """
    keys = sorted(wanted)
    for _ in range(ATTEMPTS):
        snapshot = now = log.snapshot(keys)
        ids = blocks(snapshot)
        cells = read_rows(hbase, ids, snapshot.periods)
        if (seq := log.newest()) != snapshot.head:
            # Since then, a column may have replaced the one that was the newest, which may be deleted.
            now = log.snapshot(keys)
            if _laid_out(now) != _laid_out(snapshot):
                continue
        found = {}
        for block, own in cells.items():
            period = snapshot.periods[block.period]
            if names := now.readable.current(own, period.since):
                found[block] = Content.of(own, names)
        if seq == snapshot.head:
            for block in ids:
                check(block, snapshot.periods[block.period], found.get(block))
        return StateRead(snapshot, found)
    raise RuntimeError(f"the layouts of {len(keys)} periods changed {ATTEMPTS} times while they were read")


def in_portions(snapshot: Snapshot, most: int = BYTES_A_GET) -> Iterator[list[BlockId]]:
    """All blocks of the snapshot's periods, in portions of about `most` bytes."""
    sizes = {key: block_bytes(period) for key, period in snapshot.periods.items()}
    return portions(all_blocks(snapshot), lambda block: sizes[block.period], most)


def read_blocks(log: CommitLog, hbase: HBase, blocks: Sequence[BlockId]) -> StateRead:
    """These blocks as `read_state` reads them.

    A period that was laid out again since the blocks were named is read whole.
    """
    return read_state(log, hbase, {block.period for block in blocks}, partial(_still, blocks))


def _still(wanted: Sequence[BlockId], snapshot: Snapshot) -> list[BlockId]:
    """The wanted blocks, or all blocks of a period whose layout is another one by now."""
    layouts = {block.period: block.layout for block in wanted}
    same = set(wanted)
    blocks = all_blocks(snapshot)
    return [block for block in blocks if block in same or block.layout != layouts[block.period]]


def _laid_out(snapshot: Snapshot) -> dict[PeriodKey, tuple[int, int]]:
    return {key: (period.layout, period.since) for key, period in snapshot.periods.items()}


def check(block: BlockId, period: StatePeriod, found: Content | None) -> None:
    """Raise BlockMissing if a block is not there, or is only deltas: each bucket of a layout has a base.

    A period's only block is of the commit that changed the period last.
    """
    if found is None or is_delta(found.names[0]) or (period.layout == 1 and found.newest != period.seq):
        raise BlockMissing(block, period.seq)


def read_rows(
    hbase: HBase, blocks: Iterable[BlockId], periods: Mapping[PeriodKey, StatePeriod]
) -> dict[BlockId, Cells]:
    """All columns of the blocks that have some, a few blocks at a time."""

    def size(block: BlockId) -> int:
        own = block_bytes(periods[block.period])
        return own * (COLUMNS_A_ROW if own < LARGE else COLUMNS_A_LARGE_ROW)

    found: dict[BlockId, Cells] = {}
    for some in portions(blocks, size, BYTES_A_GET):
        rows = hbase.get(STATE, [block.row.encode() for block in some], [STATE_FAMILY])
        found |= {block: rows[row] for block in some if (row := block.row.encode()) in rows}
    return found


class AttemptState:
    """The blocks that one task of an attempt at a commit reads and writes."""

    def __init__(
        self, hbase: HBase, readable: CommittedColumns, seq: int, token: str, head: Callable[[], int]
    ) -> None:
        self._hbase = hbase
        self._readable = readable
        self._seq, self._token = seq, token
        self._head = head  # the newest commit's number by now
        self._periods: dict[PeriodKey, StatePeriod] = {}
        self._rows: dict[BlockId, Cells] = {}
        self._current: dict[BlockId, Content] = {}

    def know(self, periods: Mapping[PeriodKey, StatePeriod]) -> None:
        """Learn which periods have state. The blocks of others are new, and not read."""
        self._periods |= periods

    def load(self, blocks: Sequence[BlockId]) -> dict[BlockId, bytes]:
        """The committed contents of the blocks that exist. Raises BlockMissing, StateSuperseded."""
        known = [block for block in blocks if block.period in self._periods]
        rows = read_rows(self._hbase, known, self._periods)
        found = {}
        for block in known:
            cells, period = rows.get(block, {}), self._periods[block.period]
            self._refuse_if_later(cells)
            names = self._readable.current(cells, period.since)
            content = Content.of(cells, names) if names else None
            check(block, period, content)
            self._rows[block] = cells
            if content is not None:
                self._current[block] = content
                found[block] = content.data
        return found

    def seq(self, block: BlockId) -> int:
        """The commit that wrote the base of a block that `load` returned."""
        return self._current[block].seq

    def columns(self, block: BlockId) -> list[bytes]:
        """The columns of a block that was loaded."""
        return sorted(self._rows[block])

    def write(self, blocks: Mapping[BlockId, bytes], deltas: Mapping[BlockId, bytes]) -> None:
        """Add the blocks' new columns, and delete those that nobody reads any more.

        A column that the same attempt wrote stays: a Spark task that is repeated finds what it wrote before.
        Deltas are written unseen.
        """
        own, delta = column(self._seq, self._token), delta_column(self._seq, self._token)
        todo = [
            (block.row.encode(), {own: data}, self._stale(block))
            for block, data in blocks.items()
            if own not in self._rows.get(block, {})
        ]
        todo += [(block.row.encode(), {delta: data}, []) for block, data in deltas.items()]
        for some in portions(todo, lambda row: sum(map(len, row[1].values())), BYTES_A_PUT):
            self._hbase.rewrite(STATE, some)
            crash_point("state_put")
        crash_point("state_written")

    def _stale(self, block: BlockId) -> list[bytes]:
        current = self._current.get(block)
        return self._readable.stale(self._rows.get(block, {}), current.names if current else ())

    def _refuse_if_later(self, cells: Cells) -> None:
        """Raise Superseded if a later commit than this one was made, which wrote to the row."""
        if any(column_seq(name) > self._seq for name in cells) and self._head() >= self._seq:
            raise StateSuperseded(self._seq)
