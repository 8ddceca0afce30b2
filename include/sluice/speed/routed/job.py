"""The two stages as one Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.engine.wire import SENT
from sluice.spark.workers import with_metrics
from sluice.speed.partition_pass import PartitionPass
from sluice.speed.routed.worker import WorkerPass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def slots(lines: DataFrame) -> int:
    """How many workers run side by side."""
    return int(lines.sparkSession.sparkContext.defaultParallelism)


def two_stages(lines: DataFrame, sources: PartitionPass, workers: int) -> pa.Table:
    """The rows of SENT that the second stage yields, in which worker i is partition i.

    `repartitionById` sends a row to exactly the partition that is named. A repartition by columns would hash
    the worker's number, and several workers could land in one partition by chance.
    """
    sent = lines.mapInArrow(with_metrics(sources), SENT).repartitionById(workers, "worker")
    return sent.mapInArrow(with_metrics(WorkerPass(sources.plan)), SENT).toArrow()
