"""A micro-batch as one Spark job on the executors: count the lines, merge into the state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.engine.wire import FOUND, FOUND_ARROW, SENT
from sluice.spark.workers import with_metrics
from sluice.speed.dealt import Dealt
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.worker import WorkerPass
from sluice.state.dealing import Dealing
from sluice.transmission.records import HOST, SRC_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What the state's tasks do with the rows (SENT) that were dealt to them; it yields rows of FOUND.
Merging = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def slots(spark: SparkSession) -> int:
    """How many Spark tasks run side by side."""
    return int(spark.sparkContext.defaultParallelism)


def run_pass(
    lines: DataFrame, work: PartitionPass, dealing: Dealing, merging: Merging, dealt: bool
) -> Gathered:
    """Run the batch over the lines. `dealt` is an argument of `doubles.Pass`.

    With one task of the state and no routes, the state is merged in this process: another stage takes a tenth
    of a second even when next to nothing is in it.

    `repartitionById` sends a row to exactly the partition that is named. A repartition by columns would hash
    the number, and several workers could land in one partition by chance.
    """
    if dealt:
        # A shuffle guarantees no order. Of a line's copies the first in Kafka must count. A router depends on
        # the order of its tuples, too: if Spark repeats a lost task of the first stage, each tuple must go to
        # the same worker as before, because otherwise a worker that is done lacks it.
        lines = by_file(lines).sortWithinPartitions("partition", "offset")
    if work.routes is None:
        counted = lines.mapInArrow(with_metrics(Dealt(work, dealing)), SENT)
        if dealing.tasks == 1:
            merged = merging(counted.toArrow().to_batches())
            return Gathered.of(pa.Table.from_batches(merged, FOUND_ARROW))
    else:
        sent = lines.mapInArrow(with_metrics(work), SENT).repartitionById(work.routes.workers, "worker")
        counted = sent.mapInArrow(with_metrics(Dealt(WorkerPass(work.plan), dealing)), SENT)
    merged = counted.repartitionById(dealing.tasks, "worker").mapInArrow(with_metrics(merging), FOUND)
    return Gathered.of(merged.toArrow())


def by_file(lines: DataFrame) -> DataFrame:
    """The same records, distributed so that those of one file meet, however its lines were cut into them."""
    from pyspark.sql import functions as F

    values = [  # `get` is null where a record lacks the header; `[0]` would be an error
        F.expr(f"get(filter(headers, h -> h.key = '{name}'), 0).value") for name in (HOST, SRC_FILE)
    ]
    return lines.repartition(*values)
