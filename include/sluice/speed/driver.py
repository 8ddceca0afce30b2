"""The speed layer's application: one driver, which counts its topics side by side."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection

from sluice.runtime.settings import Settings
from sluice.spark.on_demand import OnDemand
from sluice.speed.own_topics import Named, OwnTopics
from sluice.speed.progress import SpeedProgress
from sluice.speed.streaming import POLL_SECONDS, TopicStream
from sluice.stack.progress import DriverState
from sluice.storage.tables.commits import FencedOut

log = logging.getLogger(__name__)

BEAT_SECONDS = 2.0
STOP_SECONDS = 60.0  # how long a stop waits for the batches under way


class Streams:
    """The streams of one driver's topics."""

    def __init__(self, spark: OnDemand, settings: Settings, progress: SpeedProgress) -> None:
        self._spark, self._settings, self._progress = spark, settings, progress
        self._counting: dict[str, TopicStream] = {}
        self._leaving: dict[str, tuple[float, TopicStream]] = {}  # with the time that they may take

    @property
    def counted(self) -> Collection[str]:
        """The topics that it counts, or waits for."""
        return self._counting.keys()

    def follow(self, wanted: Collection[str]) -> None:
        """Count these topics. Any other is stopped after the batch under way; this does not wait for it."""
        now = time.monotonic()
        for topic in self._counting.keys() - set(wanted):
            stream = self._counting.pop(topic)
            stream.ask_to_stop()
            self._leaving[topic] = now + STOP_SECONDS, stream
        for topic, (deadline, stream) in list(self._leaving.items()):
            if now > deadline:
                stream.join(0.0)
            if stream.ended:
                del self._leaving[topic]
                self._progress.forget(topic)
        for topic in set(wanted) - self._counting.keys() - self._leaving.keys():
            self._counting[topic] = TopicStream(self._spark, self._settings, topic, self._progress)
            self._counting[topic].start()

    def fenced(self) -> list[tuple[TopicStream, FencedOut]]:
        """Remove and return the streams of topics that another speed layer counts."""
        found = [(stream, stream.fenced) for stream in self._counting.values() if stream.fenced is not None]
        for stream, _ in found:
            del self._counting[stream.topic]
            self._progress.forget(stream.topic)
        return found

    def stop(self) -> None:
        """Stop after the batches under way; lines that are not committed in time are not counted."""
        streams = [*self._counting.values(), *(stream for _, stream in self._leaving.values())]
        for stream in streams:
            stream.ask_to_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for stream in streams:
            stream.join(deadline - time.monotonic())


def run(
    spark: OnDemand,
    settings: Settings,
    progress: SpeedProgress,
    own: OwnTopics | Named,
    stopping: threading.Event,
) -> None:
    """Count the driver's own topics until `stopping` is set.

    Raises FencedOut if another speed layer counts one of them, and the others are then stopped as well. With
    several drivers the topic is tried again instead.
    """
    streams = Streams(spark, settings, progress)
    beat = 0.0
    progress.state(DriverState.RUNNING)
    try:
        while not stopping.is_set():
            streams.follow(own(streams.counted))
            for stream, error in streams.fenced():
                if own.alone:
                    stream.show(error)
                    raise error
                log.info("topic %s: another driver has not released it: it is tried again", stream.topic)
            if time.monotonic() >= beat:
                beat = time.monotonic() + BEAT_SECONDS
                progress.beat()
            stopping.wait(POLL_SECONDS)
    finally:
        streams.stop()
