"""Counts the archive's lines of a day below a cut, and writes the blocks that task versions make of them.

The blocks go to HBase's `state`, in rows and a column of their own that nobody reads until a pointer names
them. A backfill's rows begin otherwise than a rebuild's, so that a version's day may have both.
"""

from __future__ import annotations

import logging
import secrets
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from sluice.archive import index
from sluice.batch import day_job
from sluice.batch.backfill.day_blocks import BLOCKS, to_blocks, to_partials
from sluice.batch.barred import barred
from sluice.batch.day_lines import DayOf
from sluice.batch.reckoned import Tell
from sluice.batch.scan import mapped
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import Aside, Failures, refuse
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.state.blocks import BlockId
from sluice.state.state import BLOCKS_A_PUT
from sluice.storage.hbase import STATE, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import FILLED, BackfillPointer
from sluice.storage.tables.commits import Version
from sluice.storage.tables.epochs import PeriodKey, column

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

# A day's periods are dealt out to PARTS Python workers, which run one after the other on one machine. Each
# holds the series of its periods.
PARTS = 16


@dataclass(frozen=True)
class DayCount:
    """What the days of one backfill or rebuild share. cut: where each partition ends for it."""

    spark: SparkSession
    settings: Settings
    hbase: HBase
    topic: str
    cut: Mapping[int, int]

    def write(
        self,
        day: date,
        plan: EnginePlan,
        number: int,
        told: Tell,
        *,
        owner: str = FILLED,
        only: Collection[PeriodKey] | None = None,
        failures: Accumulator[Failures] | None = None,
    ) -> tuple[list[BackfillPointer], int]:
        """Count the day and write its blocks; returns their pointers, and how many lines they count.

        number: of the backfill or rebuild. only: the periods that are wanted; None: all. failures: gets the
        versions that could not be counted, of which no pointer is returned; None: raises what one raises.
        """
        holds.wait(self.settings.home, Hold.LAYERS, log.warning)
        name = column(number, secrets.token_hex(8))
        pointers: list[BackfillPointer] = []
        cells: list[tuple[bytes, dict[bytes, bytes]]] = []
        lines = Counter[Version]()
        for row in self._blocks(day, plan, told, refuse if failures is None else failures.add):
            period = (row.task_id, row.version, row.period_start)
            if only is not None and period not in only:
                continue
            data = bytes(row.data)
            pointers.append(point(BlockId.of(period, row.layout, row.bucket), day, name, len(data), owner))
            cells.append((pointers[-1].row.encode(), {name: data}))
            lines[period[:2]] += row.lines
            if len(cells) == BLOCKS_A_PUT:
                self.hbase.put(STATE, cells)
                cells = []
        self.hbase.put(STATE, cells)
        gone: Failures = {} if failures is None else failures.value
        kept = [pointer for pointer in pointers if pointer.period[:2] not in gone]
        return kept, sum(count for version, count in lines.items() if version not in gone)

    def _blocks(self, day: date, plan: EnginePlan, told: Tell, aside: Aside) -> Iterator[_Block]:
        """The day's blocks (BLOCKS), as Spark makes them."""
        which = DayOf(self.topic, day)
        files = index.files_for(self.settings, which.topic, day, self.cut)
        if not files:
            return iter(())
        paths = [self.settings.hdfs.namenode + file.path for file in files]
        parts = day_job.partitions(self.spark, files, day)
        records = day_job.archived(self.spark, paths, self.cut)
        lines = day_job.unique(records, which, plan, parts)
        gone = barred(engine(self.settings), which.topic)
        counting = partial(to_partials, own=plan, places=gone, told=told, aside=aside)
        partials = mapped(lines, counting, partials_schema())
        blocks: DataFrame = mapped(
            partials.repartition(PARTS, "task_id", "version", "period_start"),
            partial(to_blocks, series=self.settings.limits.series, aside=aside),
            BLOCKS,
        )
        rows: Iterator[_Block] = blocks.toLocalIterator()
        return rows


class _Block:
    """A row of BLOCKS: the fields that Spark's Row has."""

    task_id: int
    version: int
    period_start: int
    layout: int
    bucket: int
    lines: int
    data: bytes


def point(block: BlockId, day: date, name: bytes, size: int, owner: str = FILLED) -> BackfillPointer:
    """A pointer to a day's block, e.g. to row ``b3v2/2015-05-17/1431857100000/4/1``."""
    prefix = day_prefix(block.period[:2], day, owner)
    return BackfillPointer(
        row=f"{prefix}{block.row.partition('/')[2]}",
        task_id=block.task_id,
        version=block.version,
        day=day,
        period_start=block.period_start,
        layout=block.layout,
        bucket=block.bucket,
        column=name.decode(),
        bytes=size,
    )


def day_prefix(version: Version, day: date, owner: str = FILLED) -> str:
    """How a version's day's rows in `state` begin; no row of the speed layer does so."""
    return f"{owner}{version[0]}v{version[1]}/{day}/"


def prune(hbase: HBase, prefix: str, kept: Collection[tuple[bytes, bytes]]) -> int:
    """Delete the columns of these rows that are not `kept`; returns how many rows had some."""
    found = hbase.scan(STATE, prefix=prefix.encode(), row_filter="KeyOnlyFilter()")
    stale = [(row, [name for name in cells if (row, name) not in kept]) for row, cells in found]
    return hbase.delete(STATE, [(row, names) for row, names in stale if names])
