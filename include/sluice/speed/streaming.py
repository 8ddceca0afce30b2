"""A thread a topic, which counts one micro-batch after the other.

The commit book has the offsets to continue from, and the driver says where each batch ends. So Spark keeps no
position and no checkpoint, and a batch may be as large as the lines that wait (`batch_size`). A topic that
fails (Kafka, HBase or PostgreSQL stayed away longer than a batch waits) starts again after 1, 2, 4 ... 30
seconds, and reads all state again; the others go on.
"""

from __future__ import annotations

import logging
import threading
import time

from sluice.runtime import holds
from sluice.runtime.backoff import Backoff
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.spark.on_demand import OnDemand
from sluice.speed.batch_size import BatchSize
from sluice.speed.micro_batch import PROJECTION_STOP_SECONDS, MicroBatch, job_group
from sluice.speed.pace import pause_after
from sluice.speed.progress import SpeedProgress
from sluice.stack.progress import CountingState
from sluice.storage.tables.commits import FencedOut
from sluice.storage.tables.eras import LogMoved

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STEADY_SECONDS = 60.0  # a topic that was counted this long starts its back-off from the beginning
POLL_SECONDS = 0.5
IDLE_SECONDS = 0.1  # how soon the first line of an idle topic is seen
TAKE_UP_SECONDS = 5.0  # how soon a changed task counts on an idle topic


class TopicStream:
    """Counts one topic in a thread of its own, until it is stopped.

    It ends by itself if another speed layer counts the topic, or has not released it yet: see `fenced`.
    """

    def __init__(self, spark: OnDemand, settings: Settings, topic: str, progress: SpeedProgress) -> None:
        self.topic = topic
        self.fenced: FencedOut | None = None
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

    @property
    def ended(self) -> bool:
        """Whether it counts no more, and has released the topic."""
        return not self._thread.is_alive()

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` for its end; then cancel the batch under way, whose lines do not count."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            if (session := self._spark.started) is not None:
                session.sparkContext.cancelJobGroup(job_group(self.topic))
            self._thread.join(POLL_SECONDS)
        self._progress.topic(self.topic, CountingState.STOPPED)

    def _run(self) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self._count()
            except FencedOut as error:
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
                self.show(error)
                self._stopping.wait(pause)

    def _count(self) -> None:
        """Count batches until it is stopped, or one fails."""
        self._progress.topic(self.topic, CountingState.STARTING)
        batch = MicroBatch(self._settings, self.topic, self._progress, self._spark)
        try:
            batch.open()
            self._progress.topic(self.topic, CountingState.COUNTING)
            look = 0.0
            while not self._stopping.is_set():
                self._while_held()
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

    def _while_held(self) -> None:
        """Wait while a disk is nearly full."""
        held = False
        while (why := holds.reason(self._settings.home, Hold.LAYERS)) and not self._stopping.is_set():
            if not held:
                log.warning("topic %s: not counted: %s", self.topic, why)
                self._progress.topic(self.topic, CountingState.HELD)
            held = True
            self._stopping.wait(POLL_SECONDS)
        if held:
            self._progress.topic(self.topic, CountingState.COUNTING)

    def _batch(self, batch: MicroBatch) -> bool | None:
        """Count what waits in Kafka; says whether a part of it had to be left. None if nothing waits."""
        ends = batch.ends()
        taken = self._size.share(batch.waiting(ends))
        records = sum(taken.values())
        if not records:
            return None
        end = batch.after(taken, ends)
        try:
            counts = batch.count(end)
        except LogMoved:
            raise
        except Exception:
            self._size.failed()
            raise
        self._size.counted(records, counts["bytes"])
        return any(end[name] < last for name, last in ends.items())

    def show(self, error: Exception) -> None:
        """Show that the topic is not counted now, and why."""
        self._progress.topic(self.topic, CountingState.FAILED)
        self._progress.error(self.topic, f"{type(error).__name__}: {error}"[:1000])
