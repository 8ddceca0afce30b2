"""One partition's writer: a thread that turns the consumer's records into files.

Its life: *derive* the position from the files in HDFS (never from an offset committed to Kafka) and ask for
records from there on; buffer them; *flush* a file when it is full or old; derive again whenever a claim was
lost. Dropping the buffer is always safe, because only the files say what was archived.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
from kafka.errors import KafkaError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sluice.archive import file, indexing, layout
from sluice.archive.buffer import Buffer
from sluice.archive.chain import BrokenChain
from sluice.archive.claim import Claims
from sluice.archive.events import Archived, Event, MemberGone, Seek
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import UnreadableArchiveFile
from sluice.archive.inbox import MOVED, OUT_OF_RANGE, TOGETHER_SECONDS, Inbox, Item
from sluice.archive.partition_log import ArchivedLog
from sluice.archive.publisher import (
    FIRST_DELAY_SECONDS,
    MAX_DELAY_SECONDS,
    LostClaim,
    Publisher,
    TopicChanged,
)
from sluice.archive.status import PartitionStatus
from sluice.runtime.backoff import Backoff
from sluice.runtime.positions import era_of, offset_of, shown
from sluice.runtime.settings import Settings
from sluice.stack.progress import PartitionState
from sluice.storage.hdfs import HdfsError, HdfsStore, HdfsUnavailable
from sluice.storage.tables.eras import LogMoved
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore
from sluice.transmission.identity import Message, moved_on, records
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)

# The writer retries on its own as long as it owns the partition, so the store need not be patient.
HDFS_PATIENCE_SECONDS = 5.0
# A broken chain needs a person; looking again this often makes the remedy take effect without a restart.
BROKEN_DELAY_SECONDS = 15.0
TICK_SECONDS = 0.5


class PartitionWriter:
    """The archiver of one partition. All public methods are called by the consumer's thread."""

    def __init__(
        self,
        settings: Settings,
        place: ArchivedPartition,
        *,
        topics: Topics,
        database: Engine,
        events: Callable[[PartitionWriter, Event], None],
        generation: Callable[[], int],
        key: bytes,
    ) -> None:
        """events: is told what the writer asks for, and which writer asks."""
        self.place = place
        self._key = key  # for the records' identities
        self._home, self._limits = settings.home, settings.archive
        self._topics, self._database = topics, database
        self._emit, self._generation = events, generation
        directory = layout.partition_directory(settings, place.topic, place.topic_id, place.partition)
        self._claims = Claims(HdfsStore.of(settings, patience=HDFS_PATIENCE_SECONDS), directory)
        self._status = PartitionStatus(place, database)
        self.progress = self._status.progress
        self._publisher = Publisher(place, self._claims, topics, database, self._status)
        self._inbox = Inbox()
        self._buffer = Buffer(self._limits)
        self._format: TopicSpec | None = None
        self.log = ArchivedLog(place, topics, database, generation)
        self._epoch = 0
        self._next = 0
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self._thread = threading.Thread(target=self._run, name=f"archive {place}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, epoch: int, messages: Sequence[Message]) -> None:
        """Hand over the next messages. `epoch` is that of the Seek that asked for them."""
        self._inbox.put(epoch, messages)

    def full(self) -> bool:
        return self._inbox.full()

    def stop(self, flush_seconds: float) -> None:
        """Ask for the end: flush what is buffered within that time (0: drop it). Returns at once."""
        self._deadline = time.monotonic() + flush_seconds
        self._stopping.set()
        self._inbox.end()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if the thread still works (it may harmlessly claim a file)."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def out_of_range(self) -> None:
        """Archive what is buffered, then derive again.

        Kafka does not have the records asked for: no longer, or not yet.
        """
        self._inbox.put_out_of_range()

    def log_moved(self) -> None:
        """Drop what is buffered, and derive again: the log's leader is another one."""
        self._inbox.put_moved()

    def _run(self) -> None:
        backoff, failing_since = Backoff(FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS), None
        while not self._expired():
            try:
                self._publisher.index()
                self._derive()
                backoff.reset()
                failing_since = None
                self._status.recovered()
                self._archive()
            except LostClaim:
                continue
            except LogMoved as moved:
                log.info("%s: %s", self.place, moved)
                self._sleep(FIRST_DELAY_SECONDS)
            except TopicChanged as change:
                self._status.problem(PartitionState.CHANGED, change)
                self._emit(self, MemberGone(self.place.partition, str(change)))
                return
            except (BrokenChain, UnreadableArchiveFile, HdfsError) as error:
                self._status.problem(PartitionState.REFUSED, error)
                self._status.alert(error)
                self._sleep(BROKEN_DELAY_SECONDS)
            except (HdfsUnavailable, DBAPIError, KafkaError) as error:
                failing_since = failing_since or time.monotonic()
                self._status.waits(error, time.monotonic() - failing_since)
                self._sleep(backoff.pause())
            except Exception as error:
                # The files are right in any case, so begin again from them.
                log.exception("%s: unexpected; deriving again", self.place)
                self._status.problem(PartitionState.WAITING, error)
                self._sleep(MAX_DELAY_SECONDS)
            if self._stopping.is_set():
                break
        self.progress.state = PartitionState.STOPPED

    def _derive(self) -> None:
        """Find the end of the chain, write down what Kafka lacks after it, and ask for the rest."""
        self.progress.state = PartitionState.POSITIONING
        self._drop()
        self._epoch += 1
        links = indexing.reconcile(self._database, self._claims, self.place)
        self._format = None  # a topic may be described until the first of its lines is read
        start, end = self._topics.bounds(self.place.topic, self.place.partition)
        self.log.look()
        self._publisher.check_topic()
        position = links[-1].next if links else self.log.beginning()
        for made in self.log.lacking(position, start, end):
            self._publisher.publish(made)
            position = made.footer.next
        removed = self._claims.clean()
        if removed:
            log.info("%s: removed %d temporary files of dead writers", self.place, removed)
        self._moved(position)
        self.progress.state, self.progress.message = PartitionState.ARCHIVING, ""
        log.info("%s: archiving from offset %s on (%d files stand)", self.place, shown(position), len(links))
        self._emit(self, Seek(self.place.partition, self._epoch, self.log.offset(position, end)))

    def _archive(self) -> None:
        """Buffer and flush until the position must be derived again, or the writer stops."""
        while self._status.await_space(self._home, self._stopping):
            item = self._next_item()
            if item is None:
                if self._stopping.is_set():
                    if time.monotonic() < self._deadline:
                        self._flush()
                    return
            elif item is MOVED:
                return
            elif item is OUT_OF_RANGE:
                self._flush()
                return
            elif item[0] == self._epoch:
                self._receive(item[1])
            if self._buffer.due():
                self._flush()
            elif self._publisher.behind:
                self._publisher.try_index()

    def _next_item(self) -> Item | None:
        left = max(0.0, self._buffer.seconds_left())
        # An empty buffer has no age, but what comes into it has.
        together = min(TOGETHER_SECONDS, left, self._limits.max_age_seconds)
        return self._inbox.take(min(TICK_SECONDS, left), together)

    def _receive(self, messages: Sequence[Message]) -> None:
        """Buffer the records at their positions; those of two eras are in two files."""
        for shift, own in self.log.by_era(messages):
            if era_of(self._next) < era_of(shift):
                self._flush()
                for made in self.log.holes(self._next, own[0].offset + shift):
                    self._publisher.publish(made)
                    self._moved(made.footer.next)
            for batch in records(self.place.partition, own, self._key):
                self._take(moved_on(batch, shift))

    def _take(self, batch: pa.RecordBatch) -> None:
        """Buffer the lines, a file's worth at a time."""
        while len(batch):
            batch = self._buffer.add(batch)
            self.progress.buffered = self._buffer.lines
            if self._buffer.due():
                self._flush()

    def _flush(self) -> None:
        """Make a file of the buffer and claim its name; raises LostClaim, TopicChanged, LogMoved."""
        if not self._buffer.lines:
            return
        if self._format is None:
            self._format = TopicStore(self._database).freeze(self.place.topic)
        made = file.of_records(self.place, self._next, self._buffer.batches, self._generation(), self._format)
        self._publisher.publish_through_outages(made, self.log.read_at, self._expired, self._sleep)
        self._moved(made.footer.next)
        self.progress.files += 1
        self.progress.lines += made.footer.lines
        self._drop()
        self._emit(self, Archived(self.place.partition, offset_of(self._next)))

    def _moved(self, position: int) -> None:
        self._next = self.progress.position = position

    def _drop(self) -> None:
        self._buffer = Buffer(self._limits)
        self.progress.buffered = 0

    def _expired(self) -> bool:
        return self._stopping.is_set() and time.monotonic() >= self._deadline

    def _sleep(self, seconds: float) -> None:
        if self._stopping.is_set():
            time.sleep(min(seconds, FIRST_DELAY_SECONDS))
        else:
            self._stopping.wait(seconds)
