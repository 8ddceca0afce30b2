"""The state of the speed layer: blocks of accumulators in HBase.

A block is never overwritten. A batch adds a column named by its sequence number and its attempt's token,
built on the newest *committed* column (`storage.epochs` says which columns are). The batch's commit makes the
new columns the newest. Columns that a commit replaced, or that no commit ever made true, are deleted by the
next batch that reads their row. So those who read the state as of the commit before still find theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sluice.runtime.crash_points import crash_point
from sluice.state.blocks import BlockId
from sluice.state.portions import BYTES_A_GET, portions
from sluice.storage.commits import CommitLog
from sluice.storage.epochs import PeriodKey, Readable, Snapshot, StatePeriod, column, column_seq
from sluice.storage.hbase import STATE, STATE_FAMILY, Cells, HBase

# A row has the newest column, and mostly the one that it replaced.
COLUMNS_A_ROW = 2
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
            "speed layer replaced it, and starting again helps, or HBase lost it; then see the runbook"
        )


class Superseded(RuntimeError):
    """A batch's task runs although its commit, or a later one, was made without it."""

    def __init__(self, seq: int) -> None:
        super().__init__(f"commit {seq} was made already: this work is of no use any more")


class Content(NamedTuple):
    """A block's newest committed contents, and the commit that wrote them."""

    seq: int
    data: bytes


@dataclass(frozen=True)
class Read:
    """Blocks as of a commit or of later ones, each as of one commit."""

    snapshot: Snapshot
    blocks: dict[BlockId, Content]

    @property
    def data(self) -> dict[BlockId, bytes]:
        return {block: content.data for block, content in self.blocks.items()}

    def seq(self, block: BlockId) -> int:
        """The commit that wrote the block's contents."""
        return self.blocks[block].seq


def all_blocks(snapshot: Snapshot) -> list[BlockId]:
    """Every block that the snapshot's periods can have."""
    periods = snapshot.periods.values()
    return [BlockId.of(p.key, p.layout, bucket) for p in periods for bucket in range(p.layout)]


def read_state(
    log: CommitLog,
    hbase: HBase,
    wanted: Iterable[PeriodKey],
    blocks: Callable[[Snapshot], Sequence[BlockId]] = all_blocks,
) -> Read:
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
            name = now.readable.newest(own, period.since)
            if name is not None:
                found[block] = Content(column_seq(name), own[name])
        if seq == snapshot.head:
            for block in ids:
                _check(block, snapshot.periods[block.period], found.get(block))
        return Read(snapshot, found)
    raise RuntimeError(f"the layouts of {len(keys)} periods changed {ATTEMPTS} times while they were read")


def in_portions(snapshot: Snapshot, most: int = BYTES_A_GET) -> Iterator[list[BlockId]]:
    """All blocks of the snapshot's periods, in portions of about so many bytes."""
    sizes = {key: period.bytes // period.layout for key, period in snapshot.periods.items()}
    return portions(all_blocks(snapshot), lambda block: sizes[block.period], most)


def read_blocks(log: CommitLog, hbase: HBase, blocks: Sequence[BlockId]) -> Read:
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


def _check(block: BlockId, period: StatePeriod, found: Content | None) -> None:
    """Raise BlockMissing if a period's only block is not of the commit that changed the period last."""
    if period.layout == 1 and (found is None or found.seq != period.seq):
        raise BlockMissing(block, period.seq)


def read_rows(
    hbase: HBase, blocks: Iterable[BlockId], periods: Mapping[PeriodKey, StatePeriod]
) -> dict[BlockId, Cells]:
    """All columns of the blocks that have some, a few blocks at a time."""

    def size(block: BlockId) -> int:
        period = periods[block.period]
        return COLUMNS_A_ROW * period.bytes // period.layout

    found: dict[BlockId, Cells] = {}
    for some in portions(blocks, size, BYTES_A_GET):
        rows = hbase.get(STATE, [block.row.encode() for block in some], [STATE_FAMILY])
        found |= {block: rows[row] for block in some if (row := block.row.encode()) in rows}
    return found


class AttemptState:
    """The blocks that one task of an attempt at a commit reads and writes."""

    def __init__(
        self, hbase: HBase, readable: Readable, seq: int, token: str, head: Callable[[], int]
    ) -> None:
        self._hbase = hbase
        self._readable = readable
        self._seq, self._token = seq, token
        self._head = head  # the newest commit's number by now
        self._periods: dict[PeriodKey, StatePeriod] = {}
        self._rows: dict[BlockId, Cells] = {}
        self._base: dict[BlockId, bytes | None] = {}

    def know(self, periods: Mapping[PeriodKey, StatePeriod]) -> None:
        """Learn which periods have state. The blocks of others are new, and not read."""
        self._periods |= periods

    def load(self, blocks: Sequence[BlockId]) -> dict[BlockId, bytes]:
        """The committed contents of those of the blocks that exist. Raises BlockMissing, Superseded."""
        known = [block for block in blocks if block.period in self._periods]
        rows = read_rows(self._hbase, known, self._periods)
        found = {}
        for block in known:
            cells, period = rows.get(block, {}), self._periods[block.period]
            self._refuse_if_later(cells)
            name = self._readable.newest(cells, period.since)
            content = Content(column_seq(name), cells[name]) if name is not None else None
            _check(block, period, content)
            self._rows[block], self._base[block] = cells, name
            if content is not None:
                found[block] = content.data
        return found

    def seq(self, block: BlockId) -> int:
        """The commit that wrote the committed contents of a block that `load` returned."""
        name = self._base[block]
        return 0 if name is None else column_seq(name)

    def columns(self, block: BlockId) -> list[bytes]:
        """The columns of a block that was loaded."""
        return sorted(self._rows[block])

    def write(self, blocks: Mapping[BlockId, bytes]) -> None:
        """Add the blocks' new columns, and delete those that nobody reads any more.

        A column that the same attempt wrote stays: a Spark task that is repeated finds what it wrote before.
        """
        own = column(self._seq, self._token)
        todo = (block for block in blocks if own not in self._rows.get(block, {}))
        for some in portions(todo, lambda block: len(blocks[block]), BYTES_A_PUT):
            self._hbase.rewrite(
                STATE, [(block.row.encode(), {own: blocks[block]}, self._stale(block)) for block in some]
            )
            crash_point("state_put")
        crash_point("state_written")

    def _stale(self, block: BlockId) -> list[bytes]:
        return self._readable.stale(self._rows.get(block, {}), self._base.get(block))

    def _refuse_if_later(self, cells: Cells) -> None:
        """Raise Superseded if a later commit than this one was made, which wrote to the row."""
        if any(column_seq(name) > self._seq for name in cells) and self._head() >= self._seq:
            raise Superseded(self._seq)
