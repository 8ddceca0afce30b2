"""One consumer in the group ``sluice-archive-<topic>``, for one incarnation of the topic.

kafka-python's consumer belongs to one thread. That thread polls, hands each partition's records to its writer
through a short queue (a partition whose queue is full is paused), and carries out what the writers ask for:
seeks and commits. Parsing records is Python and holds the interpreter's lock, so more consumers would not be
faster. The writers' work (SHA-256, Arrow, zstd, HTTP) mostly releases the lock. The group only says which
member works on which partition. It is never trusted with a position: writers derive theirs from the archive's
files, and offsets are committed to Kafka afterwards for lag tools only.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError

from sluice.archive.assignor import LoadAssignor
from sluice.archive.events import Archived, Event, MemberGone, Seek
from sluice.archive.feeds import Feed, Feeds
from sluice.archive.file import ArchivedPartition
from sluice.archive.heartbeat import Heartbeat
from sluice.archive.inbox import held
from sluice.archive.loads import Loads
from sluice.archive.membership import Membership, Replaced
from sluice.archive.partition import PartitionWriter
from sluice.archive.polling import polled
from sluice.archive.rebalances import Rebalances
from sluice.runtime.positions import offset_of
from sluice.runtime.settings import Settings
from sluice.stack.jobs import ARCHIVER
from sluice.stack.progress import ArchivedTopic, ArchivingState, PartitionProgress
from sluice.storage.postgres import engine
from sluice.transmission.identity import Message
from sluice.transmission.lag import archive_group
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)

POLL_MS = 200
# A poll may give this many records, and about this many bytes, as long as records do not grow.
POLL_RECORDS = 10_000
FIRST_POLL_RECORDS = 128
POLL_BYTES = 8 << 20
FETCH_BYTES = 16 << 20
# A member that died is replaced after this long. Its files stand and nobody needs it alive, so short is fine.
SESSION_MS, HEARTBEAT_MS = 10_000, 3_000
# A partition that was added to the topic is assigned after this long.
METADATA_MS = 10_000
# To flush within a rebalance. The listener holds up the group's heartbeat meanwhile, so this must stay well
# below SESSION_MS.
HAND_OVER_SECONDS = 4.0
STOP_SECONDS = 20.0
LAST_COMMIT_MS = 10_000
LAST_WRITE_SECONDS = 2.0  # of what this member lost at its end
BEAT_SECONDS = 1.0


class ArchiveSession(ConsumerRebalanceListener):  # type: ignore[misc]
    """One consumer and the writers of the partitions that the group gives it."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        topic_id: str,
        *,
        topics: Topics,
        heartbeat: Heartbeat,
        stop: threading.Event,
        member: str = ARCHIVER,
    ) -> None:
        self._settings, self._topic, self._topic_id = settings, topic, topic_id
        self._topics, self._heartbeat, self._stop = topics, heartbeat, stop
        self._database = engine(settings)
        self._events: queue.SimpleQueue[tuple[PartitionWriter, Event]] = queue.SimpleQueue()
        self._key = identity_key(settings)
        self._feeds = Feeds()
        self._membership = Membership(topics, topic, topic_id)
        self._generation = -1
        self._beaten = 0.0
        self._poll_records = FIRST_POLL_RECORDS
        self._loads = Loads()
        self._rebalances = Rebalances.of(self._database, topic, member)
        self._assignor = LoadAssignor(topic, self._loads.loads, self._loads.speed)
        self._consumer = _consumer(settings, topic, member, self._assignor)

    def run(self) -> None:
        """Archive until told to stop. Raises Replaced, DroppedMember, KafkaError."""
        try:
            # A member that leads the group without knowing the topic's partitions would assign none of them.
            self._consumer.partitions_for_topic(self._topic)
            self._consumer.subscribe([self._topic], listener=self)
            while not self._stop.is_set():
                self._poll()
                self._carry_out()
                self._check_membership()
                self._beat(ArchivingState.ARCHIVING)
            self._end(STOP_SECONDS)
        finally:
            self._feeds.release([number for number, _ in self._feeds], 0.0)
            self._consumer.close(autocommit=False, timeout_ms=3000)
            self._rebalances.wait(LAST_WRITE_SECONDS)

    # The group says which member works on what. `poll` calls these, on the consumer's event loop.

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        why, generation = self._assignor.why, self._assignor.generation
        self._rebalances.gained([at.partition for at in assigned], generation, why)
        for at in assigned:
            # Fetch nothing before the writer knows where to begin. Any position keeps the consumer from
            # asking the group for one.
            self._consumer.pause(at)
            self._consumer.seek(at, 0)
            self._feeds.add(
                PartitionWriter(
                    self._settings,
                    ArchivedPartition(self._topic, self._topic_id, at.partition),
                    topics=self._topics,
                    database=self._database,
                    events=lambda writer, event: self._events.put((writer, event)),
                    generation=lambda: self._generation,
                    key=self._key,
                )
            )

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Flush, so that the next owner need not fetch the records again.

        What takes longer than HAND_OVER_SECONDS is dropped.
        """
        self._give_up(revoked, self._assignor.why)
        self._feeds.release([at.partition for at in revoked], HAND_OVER_SECONDS)

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        """Another member owns them already: drop what is buffered."""
        self._give_up(lost, "the group dropped this member")
        self._assignor.forget()
        self._feeds.release([at.partition for at in lost], 0.0)

    def _give_up(self, partitions: Collection[TopicPartition], why: str) -> None:
        # Those that it flushed before it left the group are written down already.
        numbers = [at.partition for at in partitions if self._feeds.get(at.partition) is not None]
        self._rebalances.lost(numbers, self._assignor.generation, why)
        for number in numbers:
            self._loads.forget(number)

    def _poll(self) -> None:
        """Fetch, hand over what was fetched, and resume partitions whose writers have room again."""
        try:
            found = polled(self._consumer, POLL_MS, self._poll_records)
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            self._refused(error)
            return
        self._generation = self._consumer.group_metadata().generation_id
        if found:
            self._poll_records = fitting(found.values())
        for at, messages in found.items():
            if (feed := self._feeds.fed(at.partition)) is None:
                continue
            if feed.moved(self._consumer._subscription.assignment[at].position.leader_epoch):
                self._consumer.pause(at)
                continue
            self._loads.took(at.partition, messages)
            if not feed.pass_on(messages):
                self._consumer.seek(at, feed.expected)
            elif feed.writer.full():
                self._consumer.pause(at)
        for at in self._consumer.paused():
            feed = self._feeds.fed(at.partition)
            if feed is not None and not feed.writer.full():
                self._consumer.resume(at)

    def _refused(self, error: OffsetOutOfRangeError | LogTruncationError) -> None:
        """Kafka does not have the records that were asked for."""
        log.warning("%s: Kafka does not have %s", self._topic, error)
        cut_off = isinstance(error, LogTruncationError)
        for at in error.divergent_offsets if cut_off else error.args[0]:
            self._consumer.pause(at)
            if (feed := self._feeds.get(at.partition)) is not None:
                feed.moved(sys.maxsize) if cut_off else feed.void()

    def _carry_out(self) -> None:
        """Do what the writers asked for since the last poll."""
        archived: dict[TopicPartition, OffsetAndMetadata] = {}
        while not self._events.empty():
            writer, event = self._events.get()
            at = TopicPartition(self._topic, event.partition)
            feed = self._feeds.of(writer)
            if isinstance(event, MemberGone):
                raise Replaced(event.message + self._not_archived())
            if feed is None or at not in self._consumer.assignment():
                continue
            if isinstance(event, Seek):
                self._consumer.seek(at, event.offset)
                feed.begin(event)
                self._rebalances.reads(event.partition)
                self._consumer.resume(at)
            elif isinstance(event, Archived):
                archived[at] = OffsetAndMetadata(event.next, "", -1)
        if archived:
            self._consumer.commit_async(archived)

    def _check_membership(self) -> None:
        try:
            self._membership.check(self._consumer.group_metadata().member_id, bool(self._feeds))
        except Replaced as replaced:
            raise Replaced(str(replaced) + self._not_archived()) from None

    def _not_archived(self) -> str:
        return f"; what it held beyond these offsets was not archived: {self._feeds.positions()}"

    def _end(self, seconds: float) -> None:
        """Flush every partition, tell the group, and leave it."""
        self._beat(ArchivingState.STOPPING)
        feeds = dict(self._feeds)
        self._rebalances.lost(list(feeds), self._assignor.generation, "this member stops")
        self._feeds.release(list(feeds), seconds)
        offsets = {
            TopicPartition(self._topic, number): OffsetAndMetadata(
                offset_of(feed.writer.progress.position), "", -1
            )
            for number, feed in feeds.items()
            if feed.writer.progress.position is not None
        }
        try:
            if offsets:
                self._consumer.commit(offsets, timeout_ms=LAST_COMMIT_MS)
        except KafkaError as error:
            log.warning("%s: the group was not told the last positions: %s", self._topic, error)

    def _beat(self, state: ArchivingState) -> None:
        if state == ArchivingState.ARCHIVING and time.monotonic() - self._beaten < BEAT_SECONDS:
            return
        self._beaten = time.monotonic()
        ends = {at.partition: self._consumer.highwater(at) for at in self._consumer.assignment()}
        self._loads.worked(self._beaten, waiting(self._feeds, ends))
        self._heartbeat.beat(
            self._topic,
            ArchivedTopic(
                topic_id=self._topic_id,
                state=state,
                generation=self._generation,
                speed=self._loads.speed(),
                partitions={
                    number: self._shown(number, feed, ends.get(number)) for number, feed in self._feeds
                },
            ),
        )

    def _shown(self, number: int, feed: Feed, end: int | None) -> PartitionProgress:
        progress = feed.writer.progress.model_copy(update={"end": end})
        if end is None or progress.position is None:
            return progress
        lag = feed.writer.log.records(progress.position, end)
        self._loads.look(number, time.monotonic(), end, end - lag)
        pace = self._loads.pace(number)
        return progress.model_copy(update={"lag": lag, "pace": pace})


def waiting(feeds: Feeds, ends: Mapping[int, int | None]) -> list[int]:
    """Records in Kafka that are not fetched yet, of each partition that has begun."""
    begun = [(ends.get(number), feed.expected) for number, feed in feeds if feed.epoch]
    return [max(0, end - expected) for end, expected in begun if end is not None]


def fitting(polled: Collection[Sequence[Message]]) -> int:
    """How many records of the size of these are POLL_BYTES."""
    size = sum(held(messages) for messages in polled)
    return max(1, min(POLL_RECORDS, POLL_BYTES * sum(map(len, polled)) // max(1, size)))


def _consumer(settings: Settings, topic: str, member: str, assignor: LoadAssignor) -> KafkaConsumer:
    return reader(
        settings.kafka,
        group_id=archive_group(topic),
        client_id=member,
        # Where Kafka does not have what a writer asks for, the writer must hear of it: never skip.
        auto_offset_reset="none",
        partition_assignment_strategy=[assignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_records=POLL_RECORDS,
        max_partition_fetch_bytes=settings.kafka.max_message_bytes + (1 << 20),
        fetch_max_bytes=FETCH_BYTES,
        metadata_max_age_ms=METADATA_MS,
    )
