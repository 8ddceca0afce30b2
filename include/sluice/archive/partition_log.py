"""A partition's log as its archiver knows it: where its records lie, and what it lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from sqlalchemy import Engine

from sluice.archive import file, index
from sluice.archive.file import ArchivedPartition, ArchiveFile
from sluice.runtime.positions import UNREAD, position_at, shown
from sluice.tasks.topic_log import TopicLog
from sluice.transmission.identity import Message
from sluice.transmission.topics import Topics

log = logging.getLogger(__name__)


class ArchivedLog:
    """One partition's log as it was looked at last. generation: of the consumer group, for footers."""

    def __init__(
        self, place: ArchivedPartition, topics: Topics, database: Engine, generation: Callable[[], int]
    ) -> None:
        self._place, self._generation, self._database = place, generation, database
        self._topic = TopicLog(database, topics, place.topic)
        self._eras = UNREAD

    def look(self) -> None:
        """Raises TopicMissing, KafkaError, DBAPIError."""
        number = self._place.partition
        self._eras = self._topic.look([number])[number]

    @property
    def epoch(self) -> int:
        """The epoch of the log's leader."""
        return self._eras.newest.epoch

    @property
    def read_at(self) -> tuple[int, int]:
        """The log's era and the epoch of its leader."""
        return self._eras.newest.era, self.epoch

    def records(self, position: int, end: int) -> int:
        """How many offsets come after the position, if the log ends at that offset."""
        return self._eras.records(position, self._eras.position(end))

    def offset(self, position: int, end: int) -> int:
        """The first offset from the position on, if the log ends at `end`."""
        return self._eras.offset(position, end)

    def beginning(self) -> int:
        """Where the first file begins: after those of an earlier topic of that name."""
        earlier = index.end_of(self._database, self._place.topic, self._place.partition)
        if earlier is not None:
            return earlier
        first = next(each for each in self._eras.eras if each.topic_id == self._place.topic_id)
        return position_at(first.era, first.begins)

    def lacking(self, position: int, start: int, end: int) -> Iterator[ArchiveFile]:
        """Files for what the log lacks from there on, up to its next record; it has offsets [start, end)."""
        begin, last = self._eras.position(start), self._eras.position(end)
        for piece in self._eras.pieces(position, begin):  # each is deleted; what lies between them is a hole
            for made in self.holes(position, piece.start + piece.shift):
                yield made
                position = made.footer.next
            following = piece.end + piece.shift
            why = f"Kafka deleted them before they were archived: its log starts at offset {shown(begin)}"
            yield self._lost(position, following, why)
            position = following
        nearest = next(self._eras.pieces(position, last), None)
        yield from self.holes(position, nearest.start + nearest.shift if nearest else max(position, last))

    def holes(self, position: int, end: int) -> Iterator[ArchiveFile]:
        """Files for what the log lacks between two positions; all its records there are archived."""
        for hole in self._eras.holes(position, end):
            if hole.lost:
                why = f"Kafka lost these {hole.lost} records before they were archived"
                yield self._lost(position, hole.next, why)
            else:
                yield file.of_seam(self._place, position, hole.next, self._generation())
            position = hole.next

    def by_era(self, messages: Sequence[Message]) -> Iterator[tuple[int, list[Message]]]:
        """The records by era, in their order, with what is added to their offsets."""
        newest = self._eras.newest
        if messages[0].offset >= newest.begins:
            yield position_at(newest.era, 0), list(messages)
            return
        for shift, own in groupby(messages, lambda one: self._eras.position(one.offset) - one.offset):
            yield shift, list(own)

    def _lost(self, first: int, following: int, why: str) -> ArchiveFile:
        said = f"offsets {shown(first)} to {shown(following - 1)} of {self._place}: {why}"
        log.error("%s", said)
        return file.of_loss(self._place, first, following, said, self._generation())
