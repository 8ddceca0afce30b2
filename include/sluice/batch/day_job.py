"""A day's two Spark jobs: the archive's records to `logs`, and `logs` to `task_results`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from sluice.archive.file import COLUMNS
from sluice.archive.index import IndexedFile
from sluice.batch.day_lines import DAY_LINES, LOG_LINES, DayOf, of_day, to_logs
from sluice.batch.day_results import to_partials, to_results
from sluice.batch.reckoned import Tell, Told, gathered, tell
from sluice.batch.result_files import WRITTEN, ResultFiles
from sluice.batch.scan import mapped, scanned, spark_schema
from sluice.batch.shuffled import SHUFFLED, dealt, partials
from sluice.engine.access_log import FIELDS
from sluice.engine.outcomes import Reckoning
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Aside, Failures, Noted, TasksFailed, Version, leaving_out
from sluice.runtime.sections import Limits
from sluice.storage.parquet import table_files
from sluice.storage.stores import Stores
from sluice.tasks.spec import ActiveTask
from sluice.transmission.line_schema import IDENTITY, LINE_IN_RECORD, LINE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What is read of `logs` to be counted, and how the engine names it.
COUNTED_COLUMNS = {
    "kafka_partition": pa.int32(),
    "kafka_offset": pa.int64(),
    LINE_IN_RECORD: pa.int32(),
    "line": pa.binary(),
}
COUNTED_NAMES = ["partition", "offset", LINE_IN_RECORD, "line"]
#: Bytes of the archive's files that a partition of the shuffle has at most. As rows of the JVM they are many
#: times as large, and its heap sorts the rows of as many partitions at a time as there are cores.
PARTITION_BYTES = 32 << 20


def partitions(spark: SparkSession, files: Iterable[IndexedFile], day: date) -> int:
    """Into how many partitions the day's lines are dealt: as the session says, or more if it is large."""
    own = sum(file.bytes * file.days.get(day.isoformat(), 0) // max(1, file.lines) for file in files)
    return max(_usual(spark), -(-own // PARTITION_BYTES))


def _usual(spark: SparkSession) -> int:
    return int(str(spark.conf.get("spark.sql.shuffle.partitions")))


def archived(spark: SparkSession, paths: Sequence[str], cut: Mapping[int, int]) -> DataFrame:
    """The archive's lines below the cut, as LINE_SCHEMA; the partition is in each file's path."""
    from pyspark.sql import functions as F

    if not paths:
        return spark.createDataFrame([], spark_schema(LINE_SCHEMA))
    number = F.regexp_extract("_metadata.file_path", r"/(\d+)/[\d-]+\.parquet$", 1).cast("int")
    ends = F.create_map(*(F.lit(value) for item in sorted(cut.items()) for value in item))
    read = spark.read.schema(spark_schema(COLUMNS)).parquet(*paths)
    return read.withColumn("partition", number).where(F.col("offset") < ends[F.col("partition")])


def unique(records: DataFrame, which: DayOf, plan: EnginePlan, parts: int) -> DataFrame:
    """The day's lines, each once: the copy that came first, and how many copies there were.

    Within a partition the first copy has the smallest offset, and within a record the smallest place. Copies
    are in several partitions if partitions were added between them. Then Kafka's timestamps say which copy
    the speed layer met first. `parts`: partitions of the shuffle that brings copies together.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    lines = mapped(records.select(*LINE_SCHEMA.names), partial(of_day, which=which, plan=plan), DAY_LINES)
    if parts > _usual(records.sparkSession):  # Spark itself may make fewer, but never more than usual
        lines = lines.repartition(parts, *IDENTITY)
    copies = Window.partitionBy(*IDENTITY)
    arrived = copies.orderBy("arrival", "offset", LINE_IN_RECORD, "partition")
    return (
        lines.withColumn("rank", F.row_number().over(arrived))
        .withColumn("copies", F.count(F.lit(1)).over(copies))
        .where("rank = 1")
        .select(*DAY_LINES.names, "copies")
    )


def write_logs(lines: DataFrame, limits: Limits, places: pa.Table, location: str) -> tuple[int, int]:
    """Write the partition of `logs`; returns how many lines came, and how many are in it.

    `places`: the lines that are `barred`.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    counts = Observation("lines")
    (
        mapped(lines, partial(to_logs, limits=limits, places=places), LOG_LINES)
        .observe(
            counts,
            F.coalesce(F.sum("copies"), F.lit(0)).alias("raw"),
            F.count_if(F.col("reason").isNull()).alias("kept"),
        )
        .where("reason IS NULL")
        .select(
            *IDENTITY,
            F.col("partition").alias("kafka_partition"),
            F.col("offset").alias("kafka_offset"),
            F.timestamp_millis("arrival").alias("arrival"),
            F.timestamp_millis("event_ms").alias("event_time"),
            # Unchanged, UTF-8 or not: the line that is read back has the bytes that were logged.
            F.col("line").cast("string"),
            *(
                F.col(field.name).cast("string") if pa.types.is_binary(field.type) else field.name
                for field in FIELDS
            ),
            F.coalesce(LINE_IN_RECORD, F.lit(0)).alias(LINE_IN_RECORD),
        )
        .write.parquet(location)
    )
    found = counts.get
    return int(found["raw"]), int(found["kept"])


def write_results(
    spark: SparkSession,
    plan: EnginePlan,
    tasks: Sequence[ActiveTask],
    logs: str,
    location: str,
    *,
    stores: Stores,
    parts: int,
    backwards: EnginePlan | None = None,
) -> tuple[Failures, tuple[pa.Table, pa.Table]]:
    """Write the partition of `task_results` from that of `logs`.

    Returns why versions failed, and what became of the lines (TALLIES and SKIPPED).

    `backwards` counts backfilled versions. There are at most `parts` files. A version that fails has no
    results there, even if a part of them could be computed: the other versions are then computed again
    without it.
    """

    def attempt(left: Mapping[Version, ActiveTask]) -> tuple[pa.Table, pa.Table]:
        gone = [version for version in versions if version not in left]
        filled = backwards.without(gone) if backwards is not None else None
        failures, found = _write_results(
            spark, plan.without(gone), list(left.values()), logs, location,
            stores=stores, parts=parts, backwards=filled,
        )  # fmt: skip
        if failures:
            raise TasksFailed(failures)
        return found

    versions = {(task.task_id, task.version): task for task in tasks}
    found, _, failed = leaving_out(attempt, versions)
    return failed, found


def _write_results(
    spark: SparkSession,
    plan: EnginePlan,
    tasks: Sequence[ActiveTask],
    logs: str,
    location: str,
    *,
    stores: Stores,
    parts: int,
    backwards: EnginePlan | None,
) -> tuple[Failures, tuple[pa.Table, pa.Table]]:
    failures = spark.sparkContext.accumulator({}, Noted())
    told = spark.sparkContext.accumulator({}, Told())
    counting = partial(
        _counted, plan=plan, backwards=backwards, aside=failures.add, told=told.add, buckets=parts
    )
    lines = table_files(stores, logs)
    counted = scanned(spark, stores, lines, COUNTED_COLUMNS, work=counting, schema=SHUFFLED)
    files = ResultFiles(stores, location)
    files.begin()
    merging = partial(_merged, tasks=tasks, series=plan.limits.series, aside=failures.add, files=files)
    written = mapped(counted.repartitionById(parts, "bucket"), merging, WRITTEN).collect()
    failed = Failures(failures.value)
    if not failed:
        files.publish(row.file for row in written)
    return failed, gathered(told.value)


def _counted(
    batches: Iterator[pa.RecordBatch],
    *,
    plan: EnginePlan,
    backwards: EnginePlan | None,
    aside: Aside,
    told: Tell,
    buckets: int,
) -> Iterator[pa.RecordBatch]:
    """COUNTED_COLUMNS to SHUFFLED."""
    lines = (pa.RecordBatch.from_arrays(batch.columns, COUNTED_NAMES) for batch in batches)
    reckoning = Reckoning()
    yield from dealt(to_partials(lines, plan, backwards, aside, reckoning), buckets)
    tell(reckoning, told)


def _merged(
    batches: Iterator[pa.RecordBatch],
    tasks: Sequence[ActiveTask],
    series: int,
    aside: Aside,
    files: ResultFiles,
) -> Iterator[pa.RecordBatch]:
    """SHUFFLED to WRITTEN."""
    return files.write(to_results(partials(batches), tasks, series, aside))
