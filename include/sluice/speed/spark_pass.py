"""One pass over a micro-batch's lines on Spark's executors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.engine.wire import FOUND
from sluice.spark.workers import with_metrics
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.job import two_stages
from sluice.transmission.records import HOST, SRC_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_pass(lines: DataFrame, work: PartitionPass, known: pa.Table, dealt: bool) -> Gathered:
    """Run the pass over the lines. `known` and `dealt` are the arguments of `doubles.Pass`."""
    work = replace(work, known=known)
    if dealt:
        # A shuffle guarantees no order. Of a line's copies the first in Kafka must count. A router depends on
        # the order of its tuples, too: if Spark repeats a lost task of the first stage, each tuple must go to
        # the same worker as before, because otherwise a worker that is done lacks it.
        lines = by_file(lines).sortWithinPartitions("partition", "offset")
    if work.routes is not None:
        return Gathered.of(two_stages(lines, work, work.routes.workers))
    return Gathered.of(lines.mapInArrow(with_metrics(work), FOUND).toArrow())


def by_file(lines: DataFrame) -> DataFrame:
    """The same records, distributed so that those of one file meet, however its lines were cut into them."""
    from pyspark.sql import functions as F

    values = [  # `get` is null where a record lacks the header; `[0]` would be an error
        F.expr(f"get(filter(headers, h -> h.key = '{name}'), 0).value") for name in (HOST, SRC_FILE)
    ]
    return lines.repartition(*values)
