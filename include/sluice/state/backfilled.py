"""What backfills and rebuilds counted, added to the speed layer's state whenever results are projected.

Each line of a version has one owner: the backfill owns the lines below the start of the version's first
commit, and the speed layer owns those from there on. Each keeps accumulators of its own. A result is made of
both. So the period in which the version was born is whole, and each of its lines is counted once, no matter
which of the two projects last. A rebuild owns lines in the same way: those below its cut.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np
import pyarrow as pa

from sluice.engine.merge import merge_numbered
from sluice.engine.set_aside import Failures, each_or_all
from sluice.state.blocks import BlockId, bucket_hash, periods, unpack
from sluice.state.portions import read_portions
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.commits import Version
from sluice.storage.tables.epochs import PeriodKey

# Blocks never change. The cache holds many times the blocks of the periods that lines still arrive for.
CACHE_BYTES = 64 << 20
CACHE_PERIODS = 20_000
# A missing block was replaced by a backfill that ran meanwhile. Three such backfills are no coincidence.
ATTEMPTS = 3


class BackfillMissing(RuntimeError):
    """A block that a filled day consists of is not in HBase."""

    def __init__(self, pointer: BackfillPointer) -> None:
        super().__init__(
            f"block {pointer.row}, column {pointer.column}, of what was counted from the archive for task "
            f"{pointer.task_id} on {pointer.day} is not in HBase: its period is set aside"
        )


class Backfilled:
    """The filled days of one topic, with a small cache; used by one thread."""

    def __init__(self, book: Backfills, hbase: HBase, topic: str) -> None:
        self._book = book
        self._hbase = hbase
        self._topic = topic
        self._revision = 0
        self._versions: set[Version] = set()
        self._unsettled: set[Version] = set()
        self._pointers: OrderedDict[PeriodKey, tuple[BackfillPointer, ...]] = OrderedDict()
        self._blocks: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def added(self, touched: pa.Table) -> tuple[pa.Table, Failures]:
        """Add to these series' merged PARTIALS what backfills counted; no series comes or goes.

        The revision is read again each time, *after* the batch was committed. A backfill that made its days
        true before that is in the result. One that did so later projects its days itself, from a state that
        includes this commit. Versions that cannot be merged are left out, and named.
        """
        self._refresh()
        if not self._versions or not touched.num_rows:
            return touched, {}
        for attempt in range(ATTEMPTS):
            pointers = needed(touched, self._of(touched))
            if not pointers:
                return touched, {}
            try:
                return add(touched, self._load(pointers))
            except BackfillMissing:
                if attempt == ATTEMPTS - 1:
                    raise
                self._forget()
        raise AssertionError

    def pointers(self, wanted: Iterable[PeriodKey]) -> list[BackfillPointer]:
        """All blocks of these periods, as the book has them now."""
        return self._book.pointers(wanted)

    @property
    def revision(self) -> int:
        """How often the topic's filled days had changed when `added` was called last."""
        return self._revision

    @property
    def unsettled(self) -> Set[Version]:
        """The versions whose results a backfill may be writing; as of `revision`, or of a later one."""
        return self._unsettled

    def _refresh(self) -> None:
        revision = self._book.revision(self._topic)
        if revision != self._revision:
            self._forget()
            self._versions = self._book.with_blocks(self._topic)
            self._unsettled = self._book.unsettled(self._topic)
            self._revision = revision

    def _forget(self) -> None:
        """Forget the pointers; the blocks stay, because a column is never written twice."""
        self._pointers.clear()

    def _of(self, touched: pa.Table) -> list[BackfillPointer]:
        """The pointers of the periods that are touched."""
        wanted = {period for period in periods(touched)[0] if period[:2] in self._versions}
        cold = wanted - self._pointers.keys()
        found: defaultdict[PeriodKey, list[BackfillPointer]] = defaultdict(list)
        for pointer in self._book.pointers(cold) if cold else ():
            found[pointer.period].append(pointer)
        for period in cold:
            self._pointers[period] = tuple(found[period])
        for period in wanted:
            self._pointers.move_to_end(period)
        answer = [pointer for period in sorted(wanted) for pointer in self._pointers[period]]
        while len(self._pointers) > CACHE_PERIODS:
            self._pointers.popitem(last=False)
        return answer

    def _load(self, pointers: Sequence[BackfillPointer]) -> dict[BackfillPointer, bytes]:
        found = {
            each: self._blocks[each.row, each.column]
            for each in pointers
            if (each.row, each.column) in self._blocks
        }
        cold = [each for each in pointers if each not in found]
        loaded = read_blocks(self._hbase, cold)
        for pointer in found:
            self._blocks.move_to_end((pointer.row, pointer.column))
        for pointer, data in loaded.items():
            self._blocks[pointer.row, pointer.column] = data
            self._bytes += len(data)
        while self._bytes > CACHE_BYTES:
            self._bytes -= len(self._blocks.popitem(last=False)[1])
        return found | loaded


def read_blocks(hbase: HBase, pointers: Sequence[BackfillPointer]) -> dict[BackfillPointer, bytes]:
    """The blocks from HBase, a few at a time. Raises BackfillMissing."""
    found: dict[BackfillPointer, bytes] = {}
    for some in read_portions(pointers):
        rows = hbase.get(STATE, [pointer.row.encode() for pointer in some], [STATE_FAMILY])
        for pointer in some:
            data = rows.get(pointer.row.encode(), {}).get(pointer.column.encode())
            if data is None:
                raise BackfillMissing(pointer)
            found[pointer] = data
    return found


def needed(touched: pa.Table, pointers: Iterable[BackfillPointer]) -> list[BackfillPointer]:
    """The blocks that can hold a series of `touched` (PARTIALS), by the hash of its key."""
    by_period: defaultdict[PeriodKey, list[BackfillPointer]] = defaultdict(list)
    for pointer in pointers:
        by_period[pointer.period].append(pointer)
    names, numbers = periods(touched)
    keys = touched.column("key")
    found: list[BackfillPointer] = []
    for number, name in enumerate(names):
        own = by_period.get(name, [])
        split = {pointer.layout for pointer in own} - {1}
        buckets: dict[int, set[int]] = {1: {0}}
        if split:
            hashes = bucket_hash(keys.take(pa.array(np.flatnonzero(numbers == number))))
            buckets |= {layout: set((hashes % np.uint64(layout)).tolist()) for layout in split}
        found += [pointer for pointer in own if pointer.bucket in buckets[pointer.layout]]
    return found


def add(touched: pa.Table, blocks: Mapping[BackfillPointer, bytes]) -> tuple[pa.Table, Failures]:
    """`touched` (merged PARTIALS) merged with its series' rows in the blocks, and what failed.

    Raises BadBlock.
    """

    by_version: defaultdict[Version, dict[BackfillPointer, bytes]] = defaultdict(dict)
    for pointer, data in blocks.items():
        by_version[pointer.period[:2]][pointer] = data
    # Here, because a damaged block is its period's fault, and not its task's.
    unpacked = {version: apart(own) for version, own in by_version.items()}

    def merged(own: pa.Table) -> pa.Table:
        versions = {period[:2] for period in periods(own)[0]}
        return onto(own, *(rows for version in sorted(versions) for rows in unpacked.get(version, ())))

    done, failures = each_or_all(merged, touched)
    return pa.concat_tables(done) if done else touched.slice(0, 0), failures


def onto(own: pa.Table, *others: pa.Table) -> pa.Table:
    """`own` (PARTIALS) merged with its series' rows in the other tables; no other series."""
    rows, numbers = merge_numbered(pa.concat_tables([own, *others]))
    return rows.take(pa.array(np.unique(numbers[: own.num_rows])))


def apart(blocks: Mapping[BackfillPointer, bytes]) -> list[pa.Table]:
    """PARTIALS of each owner and day: a period may have a block of the same name in each of them."""
    owners: defaultdict[str, dict[BlockId, bytes]] = defaultdict(dict)
    for pointer, data in blocks.items():
        owners[pointer.owner][BlockId.of(pointer.period, pointer.layout, pointer.bucket)] = data
    return [unpack(own) for own in owners.values()]


def keys_of(table: pa.Table) -> pa.Table:
    """The same series with nothing counted: every accumulator null."""
    empty = [
        table.column(field.name) if not field.nullable else pa.nulls(table.num_rows, field.type)
        for field in table.schema
    ]
    return pa.table(empty, schema=table.schema)
