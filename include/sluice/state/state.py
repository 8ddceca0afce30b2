"""The state of the speed layer: blocks of accumulators in HBase.

They are reached through the commit book's pointers. A block is never overwritten. A batch adds a column named
by its sequence number and its writer's token, built on the newest *committed* column. The pointer in the
commit's transaction makes the new column the newest. So columns of a batch that was never committed are never
read. They are found when their block is read for the first time, and deleted like those that a commit
superseded.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from sluice.runtime.crash_points import crash_point
from sluice.state.blocks import BlockId
from sluice.state.portions import read_portions
from sluice.storage.commits import CommitLog, PeriodKey, Pointer, column, column_seq
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase

# Committed blocks kept in memory: many times those of the periods that lines arrive for.
CACHE_BYTES = 256 << 20
CACHE_PERIODS = 20_000
# A block has up to 256 KiB: Thrift's frames stay below 16 MiB.
BLOCKS_A_PUT = 64


class BlockMissing(RuntimeError):
    """A committed block is not in HBase."""

    def __init__(self, pointer: Pointer) -> None:
        super().__init__(
            f"block {pointer.row} of commit {pointer.seq} is not in HBase: either another speed layer has "
            "replaced it by now, and starting again helps, or HBase lost it; then see the runbook"
        )


class State:
    """The blocks of one topic, as of its newest commit; used by one thread."""

    def __init__(self, log: CommitLog, hbase: HBase) -> None:
        self._log = log
        self._hbase = hbase
        self._pointers: OrderedDict[PeriodKey, dict[str, Pointer]] = OrderedDict()
        self._blocks: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._superseded: defaultdict[str, set[bytes]] = defaultdict(set)

    def layouts(self, periods: Iterable[PeriodKey]) -> dict[PeriodKey, int]:
        """How many buckets each period's committed blocks have; new periods are left out."""
        wanted = set(periods)
        cold = wanted - self._pointers.keys()
        for period in cold:
            self._pointers[period] = {}
        for pointer in self._log.pointers(cold):
            self._pointers[pointer.period][pointer.row] = pointer
        for period in wanted:
            self._pointers.move_to_end(period)
        return {
            period: next(iter(self._pointers[period].values())).layout
            for period in wanted
            if self._pointers[period]
        }

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, bytes]:
        """The committed contents of those of the blocks that exist.

        `layouts` must have been called for their periods.
        """
        pointers = {
            block: pointer for block in blocks if (pointer := self._pointers[block.period].get(block.row))
        }
        self._read([pointer for pointer in pointers.values() if pointer.row not in self._blocks])
        found = {}
        for block, pointer in pointers.items():
            self._blocks.move_to_end(pointer.row)
            found[block] = self._blocks[pointer.row]
        return found

    def built_on(self, blocks: Iterable[BlockId], dropped: Iterable[BlockId]) -> list[str]:
        """The committed rows, as far as known here, that these blocks continue or drop."""
        found = ((block.period, block.row) for block in (*blocks, *dropped))
        return [row for period, row in found if row in self._pointers[period]]

    def write(self, seq: int, token: str, blocks: Mapping[BlockId, bytes]) -> list[Pointer]:
        """Add the blocks' new columns to HBase; returns the pointers that a commit makes true."""
        name = column(seq, token)
        pointers: list[Pointer] = []
        todo = list(blocks.items())
        for begin in range(0, len(todo), BLOCKS_A_PUT):
            some = todo[begin : begin + BLOCKS_A_PUT]
            self._hbase.put(STATE, [(block.row.encode(), {name: data}) for block, data in some])
            pointers += [_pointer(block, seq, token, len(data)) for block, data in some]
            crash_point("after_blocks")
        return pointers

    def committed(
        self, pointers: Sequence[Pointer], blocks: Mapping[BlockId, bytes], dropped: Sequence[BlockId]
    ) -> None:
        """Take what was written as the newest state; what it replaces can be deleted."""
        for block in dropped:
            old = self._pointers[block.period].pop(block.row, None)
            self._forget(block.row)
            if old is not None:
                self._superseded[old.row].add(old.column)
        contents = {block.row: data for block, data in blocks.items()}
        for pointer in pointers:
            old = self._pointers[pointer.period].get(pointer.row)
            if old is not None:
                self._superseded[old.row].add(old.column)
            self._pointers[pointer.period][pointer.row] = pointer
            self._keep(pointer.row, contents[pointer.row])
        self.evict()

    def prune(self) -> int:
        """Delete the columns that no commit points to any more; returns how many blocks had some."""
        some, self._superseded = self._superseded, defaultdict(set)
        return self._hbase.delete(STATE, [(row.encode(), sorted(names)) for row, names in some.items()])

    def _read(self, pointers: Sequence[Pointer]) -> None:
        for some in read_portions(pointers):
            self._read_portion(some)

    def _read_portion(self, pointers: Sequence[Pointer]) -> None:
        rows = self._hbase.get(STATE, [pointer.row.encode() for pointer in pointers], [STATE_FAMILY])
        for pointer in pointers:
            cells = rows.get(pointer.row.encode(), {})
            if pointer.column not in cells:
                raise BlockMissing(pointer)
            # A column with a greater sequence number may belong to a commit that is only just being made.
            stale = {name for name in cells if name != pointer.column and column_seq(name) <= pointer.seq}
            if stale:
                self._superseded[pointer.row] |= stale
            self._keep(pointer.row, cells[pointer.column])

    def _keep(self, row: str, content: bytes) -> None:
        self._forget(row)
        self._blocks[row] = content
        self._bytes += len(content)

    def _forget(self, row: str) -> None:
        self._bytes -= len(self._blocks.pop(row, b""))

    def evict(self) -> None:
        """Drop what exceeds the cache's bounds; `layouts` may have to be called again for a period."""
        while self._bytes > CACHE_BYTES and len(self._blocks) > 1:
            self._forget(next(iter(self._blocks)))
        while len(self._pointers) > CACHE_PERIODS:
            _, old = self._pointers.popitem(last=False)
            for row in old:
                self._forget(row)


def _pointer(block: BlockId, seq: int, token: str, size: int) -> Pointer:
    return Pointer(
        row=block.row,
        task_id=block.task_id,
        version=block.version,
        period_start=block.period_start,
        layout=block.layout,
        bucket=block.bucket,
        seq=seq,
        token=token,
        bytes=size,
    )
