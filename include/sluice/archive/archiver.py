"""The archiver of a topic: one consumer of the group ``sluice-archive-<topic>`` and a writer thread a
partition.

kafka-python's consumer belongs to one thread. That thread polls, hands each partition's records to its writer
through a short queue (a partition whose queue is full is paused), and carries out what the writers ask for:
seeks, commits. Parsing records is Python and holds the interpreter's lock, so more consumers would not be
faster; what the writers do (Arrow, zstd, HTTP) mostly releases it. The group only says who works on what. It
is never trusted with a position: writers derive theirs from the archive's files, and offsets are committed to
Kafka afterwards for lag tools alone.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import KafkaError, OffsetOutOfRangeError
from sqlalchemy.exc import DBAPIError

from sluice.archive.events import Archived, Event, Gone, Seek
from sluice.archive.file import Place
from sluice.archive.heartbeat import Heartbeat
from sluice.archive.partition import PartitionWriter
from sluice.runtime.settings import Settings
from sluice.storage import alerts
from sluice.storage.postgres import engine
from sluice.transmission.identity import Message, records
from sluice.transmission.lag import archive_group
from sluice.transmission.topics import TopicMissing, Topics

log = logging.getLogger(__name__)

POLL_MS = 200
# A polled record is about 1.2 KB of Python objects and 200 B in Arrow: poll little, convert at once.
POLL_RECORDS = 10_000
FETCH_BYTES = 16 << 20
# A member that died is replaced after this long. Its files stand and nobody needs it alive, so short is fine.
SESSION_MS, HEARTBEAT_MS = 10_000, 3_000
# A partition that was added to the topic is assigned after this long.
METADATA_MS = 10_000
# Within a rebalance: the listener holds up the group's heartbeat, so it must stay well below the session.
HAND_OVER_SECONDS = 4.0
STOP_SECONDS = 20.0
LAST_COMMIT_MS = 10_000
BEAT_SECONDS = 1.0
WATCH_SECONDS = 5.0
# Between two rounds of a rebalance a member may be missing.
MISSES = 2
FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 0.5, 5.0


class _Replaced(Exception):  # an event, not an error
    """The topic was deleted or made anew: the session is over, and what it had not archived of it is gone."""


class _Dropped(Exception):  # an event, not an error
    """The group has dropped this member without the consumer's knowing: another session joins anew."""


@dataclass
class _Feed:
    """What the consumer's thread knows of a partition."""

    writer: PartitionWriter
    epoch: int = 0  # 0: not asked for yet
    expected: int = 0
    doubted: tuple[int, int] | None = None  # a gap that is being fetched a second time


class Archiver:
    """Archives one topic until `stop` is set."""

    def __init__(self, settings: Settings, topic: str, heartbeat: Heartbeat, stop: threading.Event) -> None:
        self._settings, self._topic = settings, topic
        self._heartbeat, self._stop = heartbeat, stop

    def run(self) -> None:
        """Session after session: each has its own consumer, writers and topic id, and owes nothing to the
        last one.
        """
        delay = FIRST_DELAY_SECONDS
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                with Topics(self._settings) as topics:
                    found = topics.describe(self._topic)
                    session = _Session(
                        self._settings,
                        self._topic,
                        found.id,
                        topics=topics,
                        heartbeat=self._heartbeat,
                        stop=self._stop,
                    )
                    session.run()
            except _Replaced as change:
                self._tell(str(change))
            except _Dropped as event:
                log.warning("%s: joining the group anew: %s", self._topic, event)
            except TopicMissing as error:
                self._beat("waiting for the topic", str(error))
            except KafkaError as error:
                log.warning("%s: beginning anew: %s: %s", self._topic, type(error).__name__, error)
                self._beat("waiting for Kafka", str(error))
            except Exception as error:
                # Whatever it was, the files are right: begin again from them. Other topics go on.
                log.exception("%s: unexpected; beginning anew", self._topic)
                self._beat("beginning anew", str(error))
            if time.monotonic() - began > MAX_DELAY_SECONDS:
                delay = FIRST_DELAY_SECONDS
            self._stop.wait(delay)
            delay = min(2 * delay, MAX_DELAY_SECONDS)
        self._beat("stopped", "")

    def _tell(self, change: str) -> None:
        log.error("%s: %s", self._topic, change)
        try:
            name = f"{self._topic}: replaced"
            alerts.sync(engine(self._settings), "archive", {name: change}, prefix=name)
        except DBAPIError as error:
            log.warning("%s: the alert could not be written: %s", self._topic, error)

    def _beat(self, state: str, message: str) -> None:
        self._heartbeat.beat(self._topic, {"state": state, "message": message, "partitions": {}})


class _Session(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer's life, over one incarnation of the topic."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        topic_id: str,
        *,
        topics: Topics,
        heartbeat: Heartbeat,
        stop: threading.Event,
    ) -> None:
        self._settings, self._topic, self._topic_id = settings, topic, topic_id
        self._topics, self._heartbeat, self._stop = topics, heartbeat, stop
        self._database = engine(settings)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._feeds: dict[int, _Feed] = {}
        self._generation = -1
        self._beaten = 0.0
        self._watched = time.monotonic()
        self._missed = 0
        self._consumer = KafkaConsumer(
            bootstrap_servers=settings.kafka.bootstrap,
            group_id=archive_group(topic),
            client_id="sluice-archive",
            enable_auto_commit=False,
            # Where Kafka does not have what a writer asks for, the writer must hear of it: never skip.
            auto_offset_reset="none",
            partition_assignment_strategy=[CooperativeStickyAssignor],
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_records=POLL_RECORDS,
            max_partition_fetch_bytes=settings.kafka.max_message_bytes + (1 << 20),
            fetch_max_bytes=FETCH_BYTES,
            allow_auto_create_topics=False,
            metadata_max_age_ms=METADATA_MS,
            # kafka-python 3.0.12: a partition that was paused while its fetch was under way can fall out of
            # an incremental session and is then never fetched again (seen at offset 81,867 of 98,575).
            enable_incremental_fetch_sessions=False,
            metrics_enabled=False,
        )

    def run(self) -> None:
        try:
            # A member that leads the group without knowing the topic's partitions would assign none of them.
            self._consumer.partitions_for_topic(self._topic)
            self._consumer.subscribe([self._topic], listener=self)
            while not self._stop.is_set():
                self._poll()
                self._carry_out()
                self._watch()
                self._beat("archiving")
            self._end(STOP_SECONDS)
        finally:
            self._release(list(self._feeds), 0.0)
            self._consumer.close(autocommit=False, timeout_ms=3000)

    # The group says who works on what. Called from within poll, on the consumer's event loop.

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        for at in assigned:
            # Fetch nothing before the writer knows where to begin; a position, any, keeps the consumer from
            # asking the group for one.
            self._consumer.pause(at)
            self._consumer.seek(at, 0)
            place = Place(self._topic, self._topic_id, at.partition)
            writer = PartitionWriter(
                self._settings,
                place,
                topics=self._topics,
                database=self._database,
                events=self._events.put,
                generation=lambda: self._generation,
            )
            self._feeds[at.partition] = _Feed(writer)
            writer.start()

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Flush, so that the next owner need not fetch it again; what takes longer is dropped."""
        self._release([at.partition for at in revoked], HAND_OVER_SECONDS)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Another member owns them already: drop what is buffered."""
        self._release([at.partition for at in lost], 0.0)

    def _release(self, partitions: Iterable[int], seconds: float) -> None:
        feeds = [self._feeds.pop(number) for number in partitions if number in self._feeds]
        deadline = time.monotonic() + seconds
        for feed in feeds:
            feed.writer.stop(seconds)
        for feed in feeds:
            if seconds and not feed.writer.join(deadline - time.monotonic()):
                log.warning("%s: not flushed in time; its next owner fetches it again", feed.writer.place)

    def _poll(self) -> None:
        try:
            polled = self._consumer.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            log.warning("%s: Kafka does not have %s", self._topic, error)
            for at in error.args[0]:
                self._void(at)
            return
        self._generation = self._consumer.group_metadata().generation_id
        for at, messages in polled.items():
            feed = self._feeds.get(at.partition)
            if feed is not None and feed.epoch:
                self._hand_over(at, feed, messages)
        for at in self._consumer.paused():
            feed = self._feeds.get(at.partition)
            if feed is not None and feed.epoch and not feed.writer.full():
                self._consumer.resume(at)

    def _void(self, at: TopicPartition) -> None:
        self._consumer.pause(at)
        feed = self._feeds.get(at.partition)
        if feed is not None:
            feed.epoch = 0
            feed.writer.out_of_range()

    def _hand_over(self, at: TopicPartition, feed: _Feed, messages: list[Message]) -> None:
        """Pass the records on if they follow those before them.

        Kafka's offsets have gaps where a transaction ended or a record was compacted away. A gap is believed
        when a second fetch from its first offset skips it too; deleted records would answer that fetch as out
        of range.
        """
        first = messages[0].offset
        if first > feed.expected and feed.doubted != (feed.expected, first):
            feed.doubted = (feed.expected, first)
            self._consumer.seek(at, feed.expected)
            return
        if first < feed.expected:
            messages = [message for message in messages if message.offset >= feed.expected]
        if messages:
            feed.doubted = None
            feed.expected = messages[-1].offset + 1
            feed.writer.put(feed.epoch, records(at.partition, messages))
        if feed.writer.full():
            self._consumer.pause(at)

    def _carry_out(self) -> None:
        """What the writers asked for since the last poll."""
        archived: dict[TopicPartition, OffsetAndMetadata] = {}
        while not self._events.empty():
            event = self._events.get()
            at = TopicPartition(self._topic, event.partition)
            feed = self._feeds.get(event.partition)
            if isinstance(event, Gone):
                raise _Replaced(event.message + self._positions())
            if feed is None or at not in self._consumer.assignment():
                continue
            if isinstance(event, Seek):
                self._consumer.seek(at, event.offset)
                feed.epoch, feed.expected, feed.doubted = event.epoch, event.offset, None
                self._consumer.resume(at)
            elif isinstance(event, Archived):
                archived[at] = OffsetAndMetadata(event.next, "", -1)
        if archived:
            self._consumer.commit_async(archived)

    def _watch(self) -> None:
        """End the session when the topic is another one, or the group without this member: without lines, no
        flush would notice.
        """
        if time.monotonic() - self._watched < WATCH_SECONDS:
            return
        self._watched = time.monotonic()
        try:
            found = self._topics.describe(self._topic).id
            members = self._topics.members(archive_group(self._topic))
        except TopicMissing:
            found, members = "none", frozenset()
        except KafkaError:
            return
        if found != self._topic_id:
            was = f"topic {self._topic!r} had the id {self._topic_id}, it has {found} now"
            raise _Replaced(was + self._positions())
        self._check_membership(members)

    def _check_membership(self, members: frozenset[str]) -> None:
        """End the session when the group has not known this member twice in a row.

        kafka-python 3.0.12: the task that sends the heartbeats can stall for good. The broker then drops the
        member, but `poll` hears nothing of it; it fetches on, and without a pause, for a heartbeat is due.
        """
        joined = self._consumer.group_metadata().member_id
        self._missed = 0 if not self._feeds or joined in members else self._missed + 1
        if self._missed >= MISSES:
            raise _Dropped(f"the group does not know {joined}, it has {len(members)} members")

    def _positions(self) -> str:
        """What the archive has of the topic that is gone."""
        ends = {number: feed.writer.progress.position for number, feed in sorted(self._feeds.items())}
        return f"; what it held beyond these offsets was not archived: {ends}"

    def _end(self, seconds: float) -> None:
        """Flush every partition, tell the group, and leave it."""
        self._beat("stopping")
        feeds = dict(self._feeds)
        self._release(list(feeds), seconds)
        offsets = {
            TopicPartition(self._topic, number): OffsetAndMetadata(feed.writer.progress.position, "", -1)
            for number, feed in feeds.items()
            if feed.writer.progress.position is not None
        }
        try:
            if offsets:
                self._consumer.commit(offsets, timeout_ms=LAST_COMMIT_MS)
        except KafkaError as error:
            log.warning("%s: the group was not told the last positions: %s", self._topic, error)

    def _beat(self, state: str) -> None:
        if state == "archiving" and time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        self._heartbeat.beat(
            self._topic,
            {
                "topic_id": self._topic_id,
                "state": state,
                "message": "",
                "generation": self._generation,
                "partitions": {
                    str(number): self._describe(number, feed) for number, feed in sorted(self._feeds.items())
                },
            },
        )

    def _describe(self, number: int, feed: _Feed) -> dict[str, Any]:
        progress = asdict(feed.writer.progress)
        at = TopicPartition(self._topic, number)
        end = self._consumer.highwater(at) if at in self._consumer.assignment() else None
        position = progress["position"]
        lag = max(0, end - position) if end is not None and position is not None else None
        return {**progress, "end": end, "lag": lag}
