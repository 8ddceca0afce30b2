"""The speed layer's application: a thread a topic, which counts one micro-batch after the other.

The commit book has the offsets to continue from, and the driver says where each batch ends. So Spark keeps no
position and no checkpoint, and a batch may be as large as the lines that wait (`batch_size`). A topic that
fails (Kafka, HBase or PostgreSQL stayed away longer than a batch waits) starts again after 1, 2, 4 ... 30
seconds, and reads all state again; the others go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from sluice.runtime.backoff import Backoff
from sluice.runtime.settings import Settings
from sluice.speed.batch_size import BatchSize
from sluice.speed.micro_batch import PROJECTION_STOP_SECONDS, MicroBatch
from sluice.speed.pace import pause_after
from sluice.speed.progress import SpeedProgress
from sluice.storage.commits import FencedOut
from sluice.storage.postgres import engine
from sluice.tasks.topics import TOPICS_SECONDS, TopicStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY_SECONDS = 60.0  # a topic that was counted this long starts its back-off from the beginning
POLL_SECONDS = 0.5
IDLE_SECONDS = 0.1  # how soon the first line of an idle topic is seen
BEAT_SECONDS = 2.0
TAKE_UP_SECONDS = 5.0  # how soon a changed task counts on an idle topic
STOP_SECONDS = 60.0  # how long a stop waits for the batches under way


class TopicStream:
    """Counts one topic in a thread of its own, until it is stopped."""

    def __init__(self, spark: SparkSession, settings: Settings, topic: str, progress: SpeedProgress) -> None:
        self.topic = topic
        self.fenced: FencedOut | None = None  # why it ended, if another speed layer counts the topic
        self._spark = spark
        self._settings = settings
        self._progress = progress
        self._size = BatchSize(settings.speed.batch_bytes)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"count {topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Let it stop after the batch under way."""
        self._stopping.set()

    def join(self, seconds: float) -> None:
        """Wait for its end; after so many seconds cancel the batch under way, whose lines do not count."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            self._spark.sparkContext.cancelJobGroup(self._group)
            self._thread.join(POLL_SECONDS)
        self._progress.topic(self.topic, "stopped")

    @property
    def _group(self) -> str:
        return f"count {self.topic}"

    def _run(self) -> None:
        context = self._spark.sparkContext
        context.setJobGroup(self._group, self._group, interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", self.topic)
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._count()
            except FencedOut as error:
                self._show(error)
                self.fenced = error
                return
            except Exception as error:
                if self._stopping.is_set():
                    log.info("topic %s: the batch under way was cut short: %s", self.topic, error)
                    return
                if time.monotonic() - began > STEADY_SECONDS:
                    backoff.reset()
                pause = backoff.pause()
                log.error("topic %s: starting again in %.0f s: %s", self.topic, pause, error, exc_info=error)
                self._show(error)
                self._stopping.wait(pause)

    def _count(self) -> None:
        """Count batches until it is stopped, or one fails."""
        self._progress.topic(self.topic, "starting")
        batch = MicroBatch(self._settings, self.topic, self._progress, self._spark)
        try:
            batch.open()
            self._progress.topic(self.topic, "counting")
            look = 0.0
            while not self._stopping.is_set():
                began = time.monotonic()
                left = self._batch(batch)
                if left is not None:
                    if not left:
                        took = time.monotonic() - began
                        self._stopping.wait(pause_after(took, self._settings.speed.batch_seconds))
                    continue
                if began >= look:
                    look = began + TAKE_UP_SECONDS
                    batch.take_up()
                self._stopping.wait(IDLE_SECONDS)
        finally:
            batch.close(PROJECTION_STOP_SECONDS if self._stopping.is_set() else 0.0)

    def _batch(self, batch: MicroBatch) -> bool | None:
        """Count what waits in Kafka; says whether a part of it had to be left. None if nothing waits."""
        ends = batch.ends()
        end = self._size.end(batch.position, ends)
        waiting = batch.records_until(end)
        if not waiting:
            return None
        try:
            counts = batch.count(end)
        except Exception:
            self._size.failed()
            raise
        self._size.counted(waiting, counts["bytes"])
        return any(end[name] < last for name, last in ends.items())

    def _show(self, error: Exception) -> None:
        self._progress.topic(self.topic, "failed")
        self._progress.error(self.topic, f"{type(error).__name__}: {error}"[:1000])


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
                    streams[topic] = TopicStream(spark, settings, topic, progress)
                    streams[topic].start()
                gone = {topic: streams.pop(topic) for topic in streams.keys() - set(wanted)}
                _stop(gone.values())
                for topic in gone:
                    progress.forget(topic)
            for stream in streams.values():
                if stream.fenced is not None:
                    raise stream.fenced
            if now >= beat:
                beat = now + BEAT_SECONDS
                progress.beat()
            stopping.wait(POLL_SECONDS)
    finally:
        _stop(streams.values())


def _stop(streams: Collection[TopicStream]) -> None:
    """Stop after the batches under way; lines that are not committed in time are not counted."""
    for stream in streams:
        stream.ask_to_stop()
    deadline = time.monotonic() + STOP_SECONDS
    for stream in streams:
        stream.join(deadline - time.monotonic())
