"""The records of a topic in a range of offsets, as Spark reads them from Kafka."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sluice.runtime.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FETCH_WAIT_MS = 10  # Kafka's default is 500
#: By this name executors keep their consumers from batch to batch. They commit nothing to such a group.
READERS = "sluice-speed-readers"


def records(
    spark: SparkSession, settings: Settings, topic: str, start: Mapping[str, int], end: Mapping[str, int]
) -> DataFrame:
    """The records of [start, end), a Spark partition for each of Kafka's, with the columns of `lines.decode`.

    A partition that is missing in `start` begins at 0. Fails if Kafka no longer has one of the records.
    """
    from pyspark.sql import functions as F

    there = sorted((name for name in end if end[name] > start.get(name, 0)), key=int)
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka.bootstrap)
        .option("assign", json.dumps({topic: [int(name) for name in there]}))
        .option("startingOffsets", json.dumps({topic: {name: start.get(name, 0) for name in there}}))
        .option("endingOffsets", json.dumps({topic: {name: end[name] for name in there}}))
        .option("includeHeaders", "true")
        .option("kafka.group.id", READERS)
        # A task's consumer asks for more as soon as it has something. At the log's end the broker holds that
        # request for this long, and the task's next request, for the partition's end, waits behind it.
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        .option("failOnDataLoss", "true")
        .load()
        .select(
            "partition",
            "offset",
            F.unix_millis("timestamp").alias("arrival"),
            "headers",
            F.col("value").alias("line"),
        )
    )
