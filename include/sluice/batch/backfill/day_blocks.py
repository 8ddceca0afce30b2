"""What backfilled versions count of a day's lines, and the blocks of it.

This runs inside Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.day_lines import reasons
from sluice.batch.day_results import merge_all
from sluice.batch.reckoned import Tell, tell
from sluice.engine.count import count
from sluice.engine.outcomes import Reckoning
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import Aside, TasksFailed, refuse, without
from sluice.state.blocks import BlockId, unpack
from sluice.state.merging import merge_into_blocks
from sluice.transmission.line_schema import LINE_SCHEMA

#: A block of one day of a version, as an executor hands it to the driver.
BLOCKS = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("period_start", pa.int64()),
        ("layout", pa.int32()),
        ("bucket", pa.int32()),
        ("lines", pa.int64()),  # how many its series count
        ("data", pa.binary()),
    ]
)
#: A block has up to 256 KiB: a batch of rows stays below 16 MiB.
BLOCKS_A_BATCH = 32


def to_partials(
    batches: Iterator[pa.RecordBatch], own: EnginePlan, places: pa.Table, told: Tell, aside: Aside = refuse
) -> Iterator[pa.RecordBatch]:
    """Unique DAY_LINES to PARTIALS of `own`'s versions, merged over these batches.

    A line that was a dead letter when it came stays one, also one that is `barred` (`places`). `told` gets
    what became of the others. `aside` is told of versions that fail; their PARTIALS must not be used.
    """
    reckoning = Reckoning()
    yield from merge_all(_partials(batches, own, places, reckoning, aside), aside).to_batches()
    tell(reckoning, told)


def to_blocks(
    batches: Iterator[pa.RecordBatch], series: int, aside: Aside = refuse
) -> Iterator[pa.RecordBatch]:
    """PARTIALS to BLOCKS, which are the same for the same lines.

    All rows of a period must be here together. `aside` is told of versions that fail, or have more than
    `series` series in a period; their BLOCKS must not be used.
    """
    merged = merge_all((pa.Table.from_batches([batch.cast(partials_schema())]) for batch in batches), aside)
    blocks = list(_merged_into_blocks(merged, series, aside).items())
    for begin in range(0, len(blocks), BLOCKS_A_BATCH):
        some = blocks[begin : begin + BLOCKS_A_BATCH]
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([block.task_id for block, _ in some], pa.int32()),
                pa.array([block.version for block, _ in some], pa.int32()),
                pa.array([block.period_start for block, _ in some], pa.int64()),
                pa.array([block.layout for block, _ in some], pa.int32()),
                pa.array([block.bucket for block, _ in some], pa.int32()),
                pa.array([_lines(block, data) for block, data in some], pa.int64()),
                pa.array([data for _, data in some], pa.binary()),
            ],
            schema=BLOCKS,
        )


def _partials(
    batches: Iterator[pa.RecordBatch], own: EnginePlan, places: pa.Table, reckoning: Reckoning, aside: Aside
) -> Iterator[pa.Table]:
    for batch in batches:
        alive = batch.filter(reasons(batch, own.limits, places).is_null())
        counted = count(alive.select(LINE_SCHEMA.names), replace(own, sampled=reckoning.sampled))
        if counted.failed:
            aside(counted.failed)
            own = own.without(counted.failed)  # one that hangs does so once
        reckoning.add(counted.tallies, counted.skipped)
        yield counted.partials


def _merged_into_blocks(merged: pa.Table, series: int, aside: Aside) -> dict[BlockId, bytes]:
    while True:
        try:
            return dict(merge_into_blocks(merged, {}, lambda _: {}, series).blocks)
        except TasksFailed as failed:
            aside(failed.failures)
            merged = without(merged, failed.failures)


def _lines(block: BlockId, data: bytes) -> int:
    return int(pc.sum(unpack({block: data}).column("lines")).as_py() or 0)
