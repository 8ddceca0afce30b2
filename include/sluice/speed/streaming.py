"""The speed layer's application: one streaming query a topic, restarted when it fails.

Each query is restarted on its own. Spark's checkpoint is scratch: it is made for each start of a query and
removed at its end. The offsets to continue from are in the commit book. A query that fails (Kafka, HBase or
PostgreSQL stayed away longer than a batch waits) starts again after 1, 2, 4 ... 30 seconds, and reads all
state again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from sluice.runtime.backoff import Backoff
from sluice.runtime.settings import Settings
from sluice.speed.micro_batch import MicroBatch
from sluice.speed.progress import SpeedProgress
from sluice.storage.commits import FencedOut
from sluice.storage.postgres import engine
from sluice.tasks.topics import TOPICS_SECONDS, TopicStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY_SECONDS = 60.0  # a query that ran this long starts its back-off from the beginning
POLL_SECONDS = 0.5
BEAT_SECONDS = 2.0
TAKE_UP_SECONDS = 5.0  # how soon a changed task counts on an idle topic
FETCH_WAIT_MS = 10  # Kafka's default is 500
STOP_SECONDS = 60.0  # how long a stop waits for the batch under way


class TopicStream:
    """One topic's query, and its restarts."""

    def __init__(
        self, spark: SparkSession, settings: Settings, topic: str, progress: SpeedProgress, checkpoints: Path
    ) -> None:
        self.topic = topic
        self._checkpoints = checkpoints
        self._spark = spark
        self._settings = settings
        self._progress = progress
        self._query: StreamingQuery | None = None
        self._batch: MicroBatch | None = None
        self._scratch: Path | None = None
        self._started = 0.0
        self._due = 0.0
        self._look = 0.0
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)

    def poll(self) -> None:
        """Start the query when it is due, or handle the end of one. Raises FencedOut."""
        if self._query is not None and self._query.isActive:
            if time.monotonic() - self._started > STEADY_SECONDS:
                self._backoff.reset()
            self._take_up()
            return
        if self._query is not None:
            self._failed(self._end() or RuntimeError("the query ended by itself"))
        elif time.monotonic() >= self._due:
            try:
                self._start()
            except Exception as error:  # any error: the other topics go on
                self._failed(self._end() or error)

    def _take_up(self) -> None:
        """Let a change of the tasks count even if no line comes."""
        if self._batch is None or time.monotonic() < self._look:
            return
        self._look = time.monotonic() + TAKE_UP_SECONDS
        try:
            self._batch.take_up()
        except Exception as error:
            if self._batch.failure is None:  # no commit was begun
                log.warning("topic %s: cannot look for changed tasks: %s", self.topic, error)
            else:
                self._failed(self._end() or error)

    def stop(self) -> None:
        """Stop after the batch under way; lines that are not committed by then are not counted."""
        if self._batch is not None:
            self._batch.close(STOP_SECONDS)
        self._end()
        self._progress.topic(self.topic, "stopped")

    def _start(self) -> None:
        self._progress.topic(self.topic, "starting")
        self._started = time.monotonic()
        self._scratch = Path(
            tempfile.mkdtemp(prefix=f"checkpoint-{self.topic}-", dir=scratch(self._settings))
        )
        checkpoint = self._scratch / "query"
        self._batch = MicroBatch(self._settings, self.topic, checkpoint, self._progress, self._spark)
        start = self._batch.open()
        self._query = (
            source(self._spark, self._settings, self.topic, start)
            .writeStream.queryName(self.topic)
            .foreachBatch(self._batch)
            .option("checkpointLocation", checkpoint.as_uri())
            .trigger(processingTime=f"{round(self._settings.speed.trigger_seconds * 1000)} milliseconds")
            .start()
        )
        self._progress.topic(self.topic, "counting")

    def _end(self) -> Exception | None:
        """Stop the query, and return why it ended if it failed."""
        query, batch, scratch_dir = self._query, self._batch, self._scratch
        self._query = self._batch = self._scratch = None
        failure: Exception | None = None
        if query is not None:
            query.stop()
            failure = query.exception()
        if batch is not None:
            failure = batch.failure or failure
            batch.close(0)
        if scratch_dir is not None:
            shutil.rmtree(scratch_dir, ignore_errors=True)
        return failure

    def _failed(self, error: Exception) -> None:
        self._progress.topic(self.topic, "failed")
        self._progress.error(self.topic, f"{type(error).__name__}: {error}"[:1000])
        if isinstance(error, FencedOut):
            raise error
        pause = self._backoff.pause()
        log.error("topic %s: starting again in %.0f s: %s", self.topic, pause, error, exc_info=error)
        self._due = time.monotonic() + pause


def scratch(settings: Settings) -> Path:
    """This process's directory for checkpoints; those of killed processes are removed."""
    parent = settings.home / "spark" / "speed"
    own = parent / str(os.getpid())
    own.mkdir(parents=True, exist_ok=True)
    for other in parent.iterdir():
        if not psutil.pid_exists(int(other.name)):
            shutil.rmtree(other, ignore_errors=True)
    return own


def source(spark: SparkSession, settings: Settings, topic: str, start: dict[str, int]) -> DataFrame:
    """The topic's records from these offsets on, with the columns `lines.decode` takes."""
    from pyspark.sql import functions as F

    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.kafka.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", json.dumps({topic: start}))
        .option("maxOffsetsPerTrigger", settings.speed.max_offsets_per_trigger)
        .option("includeHeaders", "true")
        # A Spark task's consumer asks for more as soon as it has something. At the log's end the broker holds
        # that request for this long, and the task's next request, for the partition's end, waits behind it.
        .option("kafka.fetch.max.wait.ms", FETCH_WAIT_MS)
        # Fail when offsets leave Kafka while this runs: the next start says which they were.
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


def run(
    spark: SparkSession,
    settings: Settings,
    progress: SpeedProgress,
    topics: Sequence[str],
    stopping: threading.Event,
) -> None:
    """Count these topics, or all topics if none is named, until `stopping` is set.

    Raises FencedOut when another speed layer counts one of them; the others are then stopped as well.
    """
    checkpoints = scratch(settings)
    streams: dict[str, TopicStream] = {}
    look, beat = 0.0, 0.0
    progress.state("running")
    try:
        while not stopping.is_set():
            now = time.monotonic()
            if now >= look:
                look = now + TOPICS_SECONDS
                wanted = topics or TopicStore(engine(settings)).names_or(streams)
                for topic in set(wanted) - streams.keys():
                    streams[topic] = TopicStream(spark, settings, topic, progress, checkpoints)
                for topic in streams.keys() - set(wanted):
                    streams.pop(topic).stop()
                    progress.forget(topic)
            for stream in streams.values():
                stream.poll()
            if now >= beat:
                beat = now + BEAT_SECONDS
                progress.beat()
            stopping.wait(POLL_SECONDS)
    finally:
        for stream in streams.values():
            stream.stop()
        shutil.rmtree(checkpoints, ignore_errors=True)
