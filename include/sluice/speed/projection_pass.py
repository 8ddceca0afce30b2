"""The results of some blocks of state: read, completed by what backfills counted, and written.

It runs in the driver or, for many blocks, as the function of a Spark job's `mapInArrow`.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

from sluice.engine.results import results
from sluice.engine.set_aside import FAILED, Failures, Version, each_or_all, from_table, to_table
from sluice.speed.state_pass import StateStores
from sluice.state.backfilled import Backfilled
from sluice.state.blocks import BlockId
from sluice.state.cells import online_cells
from sluice.state.damage import DAMAGE, damaged, damaged_pointers
from sluice.state.state import read_blocks
from sluice.state.written import ChangedResults, Written
from sluice.storage.hbase import RESULTS
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.recounts import BlockDamage
from sluice.tasks.spec import ActiveTask

#: The blocks of a job, for Spark and for Arrow; a portion is read and written at once.
BLOCKS = "portion int, task_id int, version int, period_start long, layout int, bucket int"
#: What a job returns: how many results were written, or a row of `set_aside.FAILED`.
WRITTEN = "written long, task_id int, version int, message string"
WRITTEN_ARROW = pa.schema([("written", pa.int64()), *(each.with_nullable(True) for each in FAILED)])


@dataclass(frozen=True)
class ProjectionPass:
    """Writes the results of the series that were touched after a commit; picklable."""

    stores: StateStores
    topic: str
    projected: int  # the commit
    commit: int  # the newest one, and its time in ms; the cells carry it
    stamp: int
    reopened: Set[Version]  # all series of these versions are projected
    tasks: Mapping[Version, ActiveTask] = field(repr=False)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Project rows of BLOCKS, portion by portion; yields rows of WRITTEN."""
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        pa.set_cpu_count(1)
        portions: defaultdict[int, list[BlockId]] = defaultdict(list)
        for batch in batches:
            for row in batch.to_pylist():
                portions[row.pop("portion")].append(BlockId(**row))
        for blocks in portions.values():
            written, failures = self.project(blocks, _backfilled(self.stores, self.topic))
            yield pa.RecordBatch.from_pylist([{"written": written}], WRITTEN_ARROW)
            failed = pa.table([pa.nulls(len(failures), pa.int64()), *to_table(failures)], WRITTEN_ARROW)
            yield from failed.to_batches()

    def project(
        self, blocks: Sequence[BlockId], backfilled: Backfilled, last: Written | None = None
    ) -> tuple[int, Failures]:
        """Project these blocks; how many results were written, and which versions' could not be made.

        They carry the time of `commit` as HBase's timestamp, and are made of its state or of a later one.
        Results that are as they were written `last` are left out. So are periods that are set aside, and
        those with a damaged block are from now on; a rebuild writes their results when it has switched them.
        That is why the list is read here, after the commits.
        """
        recounts = self.stores.recounts(self.topic)
        gone = recounts.of({block.period for block in blocks})
        while left := [block for block in blocks if block.period not in gone]:
            try:
                return self._project(left, backfilled, last)
            except DAMAGE:
                new = recounts.set_aside(self._damages({block.period for block in left}, backfilled))
                if not new:
                    raise
                gone |= new
        return 0, {}

    def _damages(self, periods: Collection[PeriodKey], backfilled: Backfilled) -> list[BlockDamage]:
        hbase = self.stores.hbase()
        found = damaged(self.stores.log(self.topic), hbase, periods)
        return found + damaged_pointers(hbase, backfilled.pointers(periods))

    def _project(
        self, blocks: Sequence[BlockId], backfilled: Backfilled, last: Written | None
    ) -> tuple[int, Failures]:
        log = self.stores.log(self.topic)
        found = read_blocks(log, self.stores.hbase(), blocks)
        series, seqs, unread = found.rows()
        wanted = seqs > self.projected
        ids, versions = (np.asarray(series[name]) for name in ("task_id", "version"))
        for task_id, version in self.reopened:
            wanted |= (ids == task_id) & (versions == version)
        touched = series.filter(pa.array(wanted))
        if not touched.num_rows:
            return 0, unread
        whole, failures = backfilled.added(touched)
        if last is not None:
            last.renew(backfilled.revision, log.newest)
        made, unmade = each_or_all(partial(self._made, last, backfilled.unsettled), whole)
        return self._write(made), unread | failures | unmade

    def _made(
        self, last: Written | None, unsettled: Set[Version], table: pa.Table
    ) -> tuple[pa.Table, ChangedResults | None]:
        """The results that differ from the last ones; a look of its own, because this may raise."""
        look = last.look(self.commit, unsettled) if last is not None else None
        return results(table, self.tasks, look), look

    def _write(self, made: Sequence[tuple[pa.Table, ChangedResults | None]]) -> int:
        if not made:
            return 0
        cells = online_cells(pa.concat_tables([rows for rows, _ in made]))
        count = self.stores.hbase().put_table(RESULTS, cells, timestamp=self.stamp)
        for _, look in made:
            if look is not None:
                look.keep()
        return count


@lru_cache(maxsize=4)
def _backfilled(stores: StateStores, topic: str) -> Backfilled:
    """What backfills counted of a topic, with a cache of this process."""
    return Backfilled(Backfills(stores.log(topic).engine), stores.hbase(), topic)


def written(rows: pa.Table) -> tuple[int, Failures]:
    """Rows of WRITTEN, put together."""
    failed = rows.filter(rows.column("written").is_null()).select(FAILED.names)
    return sum(each or 0 for each in rows.column("written").to_pylist()), from_table(failed)
