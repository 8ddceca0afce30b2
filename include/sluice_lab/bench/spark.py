"""The Spark session that all contenders share: it uses only files, local[2] by default."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.spark.session import ARROW_BYTES, ARROW_LINES, WORKER_ENV
from sluice_lab.bench.outcome import FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES = 2
#: More than the platform's own sessions get, because contenders that keep everything in the JVM need it.
DRIVER_MEMORY = "6g"
#: Python workers come out of the platform's own daemon, with the engine loaded. Spark ends workers that were
#: idle for a minute, and while a rival runs they are.
WORKERS = {"spark.python.daemon.module": "sluice.spark.worker_daemon"}


@contextmanager
def session(name: str, cores: int = CORES, config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Spark as the platform configures it, with enough memory for all contenders.

    cores: how many tasks run at a time, however many the machine has. config: further settings.
    """
    os.environ["POLARS_MAX_THREADS"] = "1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    scratch = FOLDER / "spark"
    scratch.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.maxResultSize": "4g",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_LINES),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
        **WORKER_ENV,
        **(config or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def read(spark: SparkSession, log: Path) -> DataFrame:
    """The lines of `workload.log`: partition, offset, line (binary)."""
    lines = spark.read.schema("kafka_partition int, kafka_offset bigint, line string").parquet(str(log))
    return lines.selectExpr(
        "kafka_partition AS partition", "kafka_offset AS offset", "cast(line AS binary) AS line"
    )


def consume(frame: DataFrame) -> None:
    """Compute every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()
