"""What the consumer's thread knows of the partitions that it feeds."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sluice.archive.events import Seek
from sluice.archive.partition import PartitionWriter
from sluice.transmission.identity import Message, following

log = logging.getLogger(__name__)


@dataclass
class Feed:
    """One partition: its writer, and which record must come next."""

    writer: PartitionWriter
    epoch: int = 0  # 0: the writer has not asked for records yet
    expected: int = 0
    doubted: tuple[int, int] | None = None  # a gap that is being fetched a second time

    def begin(self, seek: Seek) -> None:
        """Expect the records that the writer asks for next."""
        self.epoch, self.expected, self.doubted = seek.epoch, seek.offset, None

    def void(self) -> None:
        """Kafka does not have the records expected: the writer must say where to go on."""
        self.epoch = 0
        self.writer.out_of_range()

    def moved(self, epoch: int) -> bool:
        """Whether records came of a newer leader's epoch than the writer knows; then it looks again."""
        if epoch <= self.writer.log.epoch:
            return False
        self.epoch = 0
        self.writer.log_moved()
        return True

    def pass_on(self, messages: list[Message]) -> bool:
        """Give the writer the records if they follow the previous ones; False: fetch them again.

        Kafka's offsets have gaps where a transaction ended or a record was compacted away. A gap is believed
        when a second fetch from its first offset skips it too. If its records had been deleted, that fetch
        would be out of range.
        """
        first = messages[0].offset
        if first > self.expected and self.doubted != (self.expected, first):
            self.doubted = (self.expected, first)
            return False
        if first < self.expected:
            messages = [message for message in messages if message.offset >= self.expected]
        if messages:
            self.doubted = None
            self.expected = following(messages[-1])
            self.writer.put(self.epoch, messages)
        return True


class Feeds:
    """The partitions of one topic that the group gave to this member."""

    def __init__(self) -> None:
        self._feeds: dict[int, Feed] = {}

    def __bool__(self) -> bool:
        return bool(self._feeds)

    def __iter__(self) -> Iterator[tuple[int, Feed]]:
        """Each partition's number and feed, in the order of the numbers."""
        return iter(sorted(self._feeds.items()))

    def add(self, writer: PartitionWriter) -> None:
        """Start the writer of a partition; it asks for records when it knows its position."""
        self._feeds[writer.place.partition] = Feed(writer)
        writer.start()

    def get(self, partition: int) -> Feed | None:
        return self._feeds.get(partition)

    def of(self, writer: PartitionWriter) -> Feed | None:
        """The feed of that writer; None if it was released.

        A released writer may still say something when its partition has come back, to another writer.
        """
        feed = self._feeds.get(writer.place.partition)
        return feed if feed is not None and feed.writer is writer else None

    def fed(self, partition: int) -> Feed | None:
        """The partition's feed if its writer has asked for records."""
        feed = self._feeds.get(partition)
        return feed if feed is not None and feed.epoch else None

    def release(self, partitions: Iterable[int], seconds: float) -> None:
        """Stop these writers, which may flush for `seconds`; what takes longer is dropped."""
        feeds = [self._feeds.pop(number) for number in partitions if number in self._feeds]
        deadline = time.monotonic() + seconds
        for feed in feeds:
            feed.writer.stop(seconds)
        for feed in feeds:
            if seconds and not feed.writer.join(deadline - time.monotonic()):
                log.warning("%s: not flushed in time; its next owner fetches it again", feed.writer.place)

    def positions(self) -> dict[int, int | None]:
        """The offset after what is archived, by partition; None where that is not known yet."""
        return {number: feed.writer.progress.position for number, feed in self}
