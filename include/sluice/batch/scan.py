"""Spark jobs whose tasks read Parquet themselves, in their Python workers.

Spark schedules the tasks and repeats those that fail, but the rows never pass through the JVM: to send a line
from there to Python costs more than to count it for one task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.engine.batches import PASS_BYTES, PASS_LINES
from sluice.spark.workers import Work, with_metrics
from sluice.storage.parquet import RowGroups, deal, read
from sluice.storage.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: How much a task reads at most, or one row group that is larger. It is what is lost when a task fails.
SHARE_BYTES = 128 << 20


def mapped(frame: DataFrame, work: Work, schema: pa.Schema) -> DataFrame:
    """The rows of that schema that the work makes of the frame's rows in Python workers."""
    return frame.mapInArrow(with_metrics(work), spark_schema(schema))


def scanned(
    spark: SparkSession,
    stores: Stores,
    files: Sequence[tuple[str, int]],
    columns: Mapping[str, pa.DataType],
    *,
    work: Work,
    schema: pa.Schema,
) -> DataFrame:
    """The rows that the work makes of these columns of Parquet files (URLs and lengths)."""
    shares = deal(
        files, share_count(sum(length for _, length in files), spark.sparkContext.defaultParallelism)
    )
    reading = partial(_read, stores=stores, shares=shares, columns=dict(columns), work=work)
    return mapped(spark.range(0, len(shares), 1, max(1, len(shares))), reading, schema)


def share_count(size: int, cores: int) -> int:
    """Into how many shares `size` bytes are dealt, so that each core has equally many."""
    return cores * max(1, -(-size // (cores * SHARE_BYTES)))


def _read(
    numbers: Iterator[pa.RecordBatch],
    stores: Stores,
    shares: Sequence[Sequence[RowGroups]],
    columns: Mapping[str, pa.DataType],
    work: Work,
) -> Iterator[pa.RecordBatch]:
    mine = [piece for batch in numbers for number in batch.column(0).to_pylist() for piece in shares[number]]
    return work(read(stores, mine, columns, PASS_LINES, PASS_BYTES))


def spark_schema(schema: pa.Schema) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
