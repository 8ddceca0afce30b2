"""One pass over a micro-batch's lines on Spark's executors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.engine.wire import FOUND
from sluice.spark.workers import with_metrics
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.job import two_stages
from sluice.transmission.records import IDENTITY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_pass(lines: DataFrame, work: PartitionPass, known: pa.Table, dealt: bool) -> Gathered:
    """Run the pass over the lines. `known` and `dealt` are the arguments of `doubles.Pass`."""
    work = replace(work, known=known)
    if dealt:
        lines = by_identity(lines)
    if work.routes is not None:
        if dealt:
            # A router depends on the order of its tuples, and a shuffle guarantees none. If Spark repeats a
            # lost task of the first stage, each tuple must go to the same worker as before: otherwise a
            # worker that is done lacks it.
            lines = lines.sortWithinPartitions("partition", "offset")
        return Gathered.of(two_stages(lines, work, work.routes.workers))
    return Gathered.of(lines.mapInArrow(with_metrics(work), FOUND).toArrow())


def by_identity(lines: DataFrame) -> DataFrame:
    """The same lines, distributed so that lines of one identity meet."""
    from pyspark.sql import functions as F

    values = [  # `get` is null where a record lacks the header; `[0]` would be an error
        F.expr(f"get(filter(headers, h -> h.key = '{name}'), 0).value") for name in IDENTITY
    ]
    return lines.repartition(*values)
