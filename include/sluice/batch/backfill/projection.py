"""Projects a filled day's series, or periods that were counted again, from all parts of the state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.set_aside import CAUGHT, TasksFailed, reason
from sluice.state.backfilled import Backfilled, apart, keys_of, onto, read_blocks
from sluice.state.blocks import BlockId, bucket_hash, periods, unpack
from sluice.state.cells import online_cells
from sluice.state.state import read_state
from sluice.storage.hbase import RESULTS, HBase
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import Snapshot
from sluice.tasks.spec import ActiveTask


class Projection:
    """Writes the online results of one version's series."""

    def __init__(self, book: Backfills, hbase: HBase, topic: str, task: ActiveTask) -> None:
        self._book = book
        self._hbase = hbase
        self._topic = topic
        self._task = task
        self._log = CommitLog(book.engine, topic)
        self._backfilled = Backfilled(book, hbase, topic)

    def project(self, pointers: Sequence[BackfillPointer]) -> int:
        """Project all series of these blocks of one day; returns how many results were written."""
        blocks = {
            BlockId.of(pointer.period, pointer.layout, pointer.bucket): data
            for pointer, data in read_blocks(self._hbase, pointers).items()
        }
        keys = keys_of(unpack(blocks))
        # The head is read first: the state that is read after it includes at least the head's commits.
        head = self._log.head()
        stamp = round(head.committed_at.timestamp() * 1000) + 1 if head else 1
        whole, failures = self._backfilled.added(onto(keys, self._speed(keys)))
        if failures:
            raise TasksFailed(failures)
        version = (self._task.task_id, self._task.version)
        cells = online_cells(results(whole, {version: self._task}))
        return self._hbase.put_table(RESULTS, cells, timestamp=stamp)

    def project_periods(self, starts: Sequence[int]) -> int:
        """Project all series of these periods; returns how many results were written.

        Raises what DAMAGE names if a block of them cannot be read, TasksFailed if the task's results cannot
        be made.
        """
        keys = [(self._task.task_id, self._task.version, start) for start in starts]
        head = self._log.head()  # first, as above
        stamp = round(head.committed_at.timestamp() * 1000) + 1 if head else 1
        rows, _, failures = read_state(self._log, self._hbase, keys).rows()
        if failures:
            raise TasksFailed(failures)
        blocks = read_blocks(self._hbase, self._book.pointers(keys))
        parts, version = [rows, *apart(blocks)], keys[0][:2]
        try:
            found = results(merge(pa.concat_tables(parts)), {version: self._task})
        except CAUGHT as error:
            raise TasksFailed({version: reason(error)}) from error
        if not found.num_rows:
            return 0
        cells = online_cells(found)
        return self._hbase.put_table(RESULTS, cells, timestamp=stamp)

    def _speed(self, keys: pa.Table) -> pa.Table:
        """The speed layer's blocks that have these series, as of its newest commit or a later one."""
        wanted = partial(block_ids, keys)
        rows, _, failures = read_state(self._log, self._hbase, periods(keys)[0], wanted).rows()
        if failures:
            raise TasksFailed(failures)
        return rows


def block_ids(keys: pa.Table, snapshot: Snapshot) -> list[BlockId]:
    """The speed layer's blocks that can hold these series."""
    names, numbers = periods(keys)
    found: list[BlockId] = []
    for number, key in enumerate(names):
        period = snapshot.periods.get(key)
        if period is None:
            continue
        own = keys.column("key").filter(pa.array(numbers == number))
        buckets = {0} if period.layout == 1 else set((bucket_hash(own) % period.layout).tolist())
        found += [BlockId.of(key, period.layout, bucket) for bucket in sorted(buckets)]
    return found
