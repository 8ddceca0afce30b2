"""One partition's writer: a thread that turns what the consumer hands it into files, and knows its place from
them.

Its life: *derive* the position from the files in HDFS (never from an offset committed to Kafka) and ask for
records from there on; buffer them; *flush* a file when it is full or old; derive again whenever a claim was
lost. Dropping the buffer is always safe, because nothing but the files says what was archived.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from kafka.errors import KafkaError
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from sluice.archive import file, index, layout
from sluice.archive.chain import BrokenChain
from sluice.archive.claim import Claims
from sluice.archive.events import Archived, Event, Gone, PartitionProgress, Seek
from sluice.archive.file import ArchiveFile, Place
from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.runtime.settings import Settings
from sluice.storage import alerts
from sluice.storage.hdfs import HdfsError, HdfsStore, HdfsUnavailable
from sluice.tasks.topic import TopicSpec
from sluice.tasks.topics import TopicStore
from sluice.transmission.records import RECORDS
from sluice.transmission.topics import TopicMissing, Topics

log = logging.getLogger(__name__)

# Polled batches waiting for the writer; the consumer pauses the partition from there on, so that a slow HDFS
# holds up the fetching and not the memory.
QUEUE_BATCHES = 4
FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.2, 5.0
# The writer retries on its own as long as it owns the partition; the store need not be patient for it.
HDFS_PATIENCE_SECONDS = 5.0
# A broken chain needs a person; looking again this often makes the remedy take effect without a restart.
BROKEN_DELAY_SECONDS = 15.0
# A partition that has made no progress for this long although it tried raises an alert.
ALERT_SECONDS = 30.0
TICK_SECONDS = 0.5


class TopicChanged(RuntimeError):
    """The topic was deleted, or deleted and made again: what was buffered may be another topic's."""


class LogBehindArchive(BrokenChain):
    """Kafka's log ends before the archive does: its next records would take offsets that are archived
    already.
    """

    def __init__(self, place: Place, position: int, end: int) -> None:
        super().__init__(
            place.topic,
            place.partition,
            f"Kafka's log ends at offset {end}, the archive at {position} (topic id {place.topic_id})",
            "The broker lost acknowledged records: make the topic anew (it gets a new id and a directory of "
            "its own), or let the collection go to another topic",
        )


class _LostClaim(Exception):  # an event, not an error
    """Another writer's file stands under our name."""


# An epoch and the records fetched for it.
_Item = tuple[int, pa.RecordBatch]
OUT_OF_RANGE: _Item = (-1, RECORDS.empty_table())


@dataclass
class _Buffer:
    batches: list[pa.RecordBatch] = field(default_factory=list)
    records: int = 0
    bytes: int = 0
    since: float = 0.0

    def add(self, batch: pa.RecordBatch) -> None:
        if not self.batches:
            self.since = time.monotonic()
        self.batches.append(batch)
        self.records += len(batch)
        self.bytes += batch.nbytes


class PartitionWriter:
    """The archiver of one partition. All methods but `run` are called by the consumer's thread."""

    def __init__(
        self,
        settings: Settings,
        place: Place,
        *,
        topics: Topics,
        database: Engine,
        events: Callable[[Event], None],
        generation: Callable[[], int],
    ) -> None:
        self.place = place
        self.progress = PartitionProgress()
        self._limits = settings.archive
        directory = layout.partition_directory(settings, place.topic, place.topic_id, place.partition)
        self._claims = Claims(HdfsStore.of(settings, patience=HDFS_PATIENCE_SECONDS), directory)
        self._topics, self._database = topics, database
        self._emit, self._generation = events, generation
        self._inbox: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._buffer = _Buffer()
        self._format: TopicSpec | None = None
        self._unindexed: deque[tuple[Footer, int, str]] = deque()
        self._epoch = 0
        self._next = 0
        self._stopping = threading.Event()
        self._deadline = float("inf")
        self._alert_open = True  # an earlier process may have left one
        self._thread = threading.Thread(target=self._run, name=f"archive {place}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, epoch: int, records: pa.RecordBatch) -> None:
        """Hand over the next records (RECORDS). `epoch` is that of the Seek which asked for them."""
        self._inbox.put((epoch, records))

    def full(self) -> bool:
        return self._inbox.qsize() >= QUEUE_BATCHES

    def stop(self, flush_seconds: float) -> None:
        """Ask for the end: flush what is buffered within that time (0: drop it). Returns at once."""
        self._deadline = time.monotonic() + flush_seconds
        self._stopping.set()
        self._inbox.put(None)

    def join(self, seconds: float) -> bool:
        """Wait for the end; False if the thread still works (it may yet claim a file, which is harmless)."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def out_of_range(self) -> None:
        """Kafka no longer has (or not yet) the records asked for: archive what is buffered, then derive
        again.
        """
        self._inbox.put(OUT_OF_RANGE)

    def _run(self) -> None:
        delay, failing_since = FIRST_DELAY_SECONDS, None
        while not self._expired():
            try:
                self._index()
                self._derive()
                delay, failing_since = FIRST_DELAY_SECONDS, None
                self._recovered()
                self._archive()
            except _LostClaim:
                continue
            except TopicChanged as change:
                self._problem("topic changed", change)
                self._emit(Gone(self.place.partition, str(change)))
                return
            except (BrokenChain, UnreadableArchiveFile, HdfsError) as error:
                self._problem("refused", error)
                self._alert(str(error))
                self._sleep(BROKEN_DELAY_SECONDS)
            except (HdfsUnavailable, DBAPIError, KafkaError) as error:
                failing_since = failing_since or time.monotonic()
                self._problem("waiting", error)
                if time.monotonic() - failing_since > ALERT_SECONDS:
                    self._alert(str(error))
                self._sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)
            except Exception as error:
                # Whatever it was, the files are right: begin again from them.
                log.exception("%s: unexpected; deriving again", self.place)
                self._problem("waiting", error)
                self._sleep(MAX_DELAY_SECONDS)
            if self._stopping.is_set():
                break
        self.progress.state = "stopped"

    def _derive(self) -> None:
        """Find the end of the chain, record what Kafka dropped behind it, and ask for what follows."""
        self.progress.state = "deriving its position"
        self._drop()
        self._epoch += 1
        links = index.reconcile(self._database, self._claims, self.place)
        position = links[-1].next if links else 0
        self._format = None  # a topic may be described until the first of its lines is read
        start, end = self._topics.bounds(self.place.topic, self.place.partition)
        self._same_topic()
        if end < position:
            raise LogBehindArchive(self.place, position, end)
        if start > position:
            position = self._record_loss(position, start)
        removed = self._claims.clean()
        if removed:
            log.info("%s: removed %d temporary files of dead writers", self.place, removed)
        self._moved(position)
        self.progress.state, self.progress.message = "archiving", ""
        log.info("%s: archiving from offset %d on (%d files stand)", self.place, position, len(links))
        self._emit(Seek(self.place.partition, self._epoch, position))

    def _record_loss(self, position: int, start: int) -> int:
        why = (
            f"Kafka's log of {self.place} starts at offset {start} and the archive ended at {position}: "
            f"offsets {position} to {start - 1} were deleted before they were archived"
        )
        log.error("%s", why)
        self._publish(file.of_loss(self.place, position, start, why, self._generation()))
        return start

    def _archive(self) -> None:
        """Buffer and flush until the position must be derived again, or the end."""
        while True:
            item = self._next_item()
            if item is None:
                if self._stopping.is_set():
                    if time.monotonic() < self._deadline:
                        self._flush()
                    return
            elif item is OUT_OF_RANGE:
                self._flush()
                return
            elif item[0] == self._epoch:
                self._take(item[1])
            if self._due():
                self._flush()
            elif self._unindexed:
                self._try_index()

    def _next_item(self) -> _Item | None:
        wait = TICK_SECONDS
        if self._buffer.records:
            age = time.monotonic() - self._buffer.since
            wait = min(wait, max(0.0, self._limits.max_age_seconds - age))
        try:
            return self._inbox.get(timeout=wait)
        except queue.Empty:
            return None

    def _take(self, batch: pa.RecordBatch) -> None:
        """Buffer the records, a file's worth at a time."""
        while len(batch):
            room = self._limits.max_records - self._buffer.records
            self._buffer.add(batch.slice(0, room))
            self.progress.buffered = self._buffer.records
            batch = batch.slice(room)
            if self._due():
                self._flush()

    def _due(self) -> bool:
        buffer, limits = self._buffer, self._limits
        return buffer.records > 0 and (
            buffer.records >= limits.max_records
            or buffer.bytes >= limits.max_bytes
            or time.monotonic() - buffer.since >= limits.max_age_seconds
        )

    def _flush(self) -> None:
        """Make a file of the buffer and claim its name; raises _LostClaim, TopicChanged."""
        if not self._buffer.records:
            return
        if self._format is None:
            self._format = TopicStore(self._database).freeze(self.place.topic)
        made = file.of_records(self.place, self._next, self._buffer.batches, self._generation(), self._format)
        self._until_published(made)
        self._moved(made.footer.next)
        self.progress.files += 1
        self.progress.records += made.footer.records
        self._drop()
        self._emit(Archived(self.place.partition, self._next))

    def _until_published(self, made: ArchiveFile) -> None:
        """Publish through any outage, as long as this writer is wanted."""
        delay, since = FIRST_DELAY_SECONDS, time.monotonic()
        while True:
            try:
                # The records were fetched before this question: if the id is still the same, they are its
                # own.
                self._same_topic()
                self._publish(made)
                return
            except (HdfsUnavailable, KafkaError) as error:
                self._problem("waiting", error)
                if time.monotonic() - since > ALERT_SECONDS:
                    self._alert(str(error))
                if self._expired():
                    raise
                self._sleep(delay)
                delay = min(2 * delay, MAX_DELAY_SECONDS)

    def _publish(self, made: ArchiveFile) -> None:
        standing, length = self._claims.publish(made)
        if standing.claim != made.footer.claim:
            log.warning(
                "%s: lost the claim on offset %d to generation %d (this is %d); going on from what stands",
                self.place,
                standing.first,
                standing.generation,
                made.footer.generation,
            )
            raise _LostClaim
        self._unindexed.append((standing, length, self._claims.path(standing.first)))
        self._try_index()

    def _try_index(self) -> None:
        """Index what stands, if PostgreSQL is there. The file is safe and its row can wait: the rows are
        added in their order before anything is derived again.
        """
        try:
            self._index()
        except DBAPIError as error:
            self._problem("archiving", error)
        else:
            self._recovered()

    def _index(self) -> None:
        if self._unindexed:
            index.add(self._database, self._unindexed)
            self._unindexed.clear()

    def _same_topic(self) -> None:
        try:
            now = self._topics.describe(self.place.topic).id
        except TopicMissing as error:
            raise TopicChanged(self._ended("was deleted")) from error
        if now != self.place.topic_id:
            raise TopicChanged(self._ended(f"was made anew with id {now}"))

    def _ended(self, how: str) -> str:
        return (
            f"topic {self.place.topic!r} with id {self.place.topic_id} {how} ({self._buffer.records} "
            f"buffered records of partition {self.place.partition} are dropped, they may be another topic's)"
        )

    def _moved(self, position: int) -> None:
        self._next = self.progress.position = position

    def _drop(self) -> None:
        self._buffer = _Buffer()
        self.progress.buffered = 0

    def _expired(self) -> bool:
        return self._stopping.is_set() and time.monotonic() >= self._deadline

    def _sleep(self, seconds: float) -> None:
        if self._stopping.is_set():
            time.sleep(min(seconds, FIRST_DELAY_SECONDS))
        else:
            self._stopping.wait(seconds)

    def _problem(self, state: str, error: Exception) -> None:
        if (state, str(error)) != (self.progress.state, self.progress.message):
            log.warning("%s: %s: %s", self.place, state, error)
        self.progress.state, self.progress.message = state, str(error)

    def _recovered(self) -> None:
        self.progress.state, self.progress.message = "archiving", ""
        if self._alert_open:
            self._sync_alert({})

    def _alert(self, message: str) -> None:
        self._sync_alert({f"{self.place}: not archived": message})

    def _sync_alert(self, current: dict[str, str]) -> None:
        try:
            alerts.sync(self._database, "archive", current, prefix=f"{self.place}: ")
            self._alert_open = bool(current)
        except DBAPIError as error:
            log.warning("%s: the alert could not be written: %s", self.place, error)
