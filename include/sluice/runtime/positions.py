"""Positions in a partition's log: each is that of one record for ever, whatever Kafka loses.

Kafka gives an offset to another record when a broker lost the end of its log that was not on disk yet, when
the topic was deleted and made again, and when an older volume was restored. So a position is an *era*
and an offset in one number. An era begins where other records came to offsets that somebody had read
(`tasks.topic_log` finds that out). In era 0, which few logs ever leave, a position is Kafka's offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

#: Bits of a position that are the offset: 17,592 billion records a partition, and 524,287 eras.
OFFSET_BITS = 44
_ONE = 1 << OFFSET_BITS


def position_at(era: int, offset: int) -> int:
    return era * _ONE + offset


def era_of(position: int) -> int:
    return position // _ONE


def offset_of(position: int) -> int:
    """Kafka's offset of the record at that position."""
    return position % _ONE


def shown(position: int) -> str:
    """A position as people read it: 90, or 90 of era 1."""
    era = era_of(position)
    return f"{offset_of(position)} of era {era}" if era else str(position)


#: Shared by two volumes of Kafka's that have nothing of a partition in common.
NO_EPOCH = -1
_UNSEEN = -10


def before_a_look(shared: int) -> int:
    """The `Era.epoch` of an era that began with another volume of Kafka's, until it is looked at.

    No leader has it. shared: the newest epoch that both volumes have, or NO_EPOCH.
    """
    return _UNSEEN - shared


@dataclass(frozen=True, order=True)
class Era:
    """An era of a partition's log.

    topic_id: Kafka's id of the topic. begins: its first offset. epoch: of the newest leader that is known to
    have gone on with it; see `before_a_look`, too. reached: the offset up to which somebody had read the era
    before.
    """

    era: int
    topic_id: str
    begins: int
    epoch: int
    reached: int = 0

    @property
    def shared(self) -> int | None:
        """The newest epoch that Kafka's volume shares with the one before; None: it was looked at since."""
        return _UNSEEN - self.epoch if self.epoch <= _UNSEEN - NO_EPOCH else None

    @property
    def known(self) -> int:
        """The newest epoch whose records are those that were read."""
        return self.epoch if self.shared is None else self.shared


@dataclass(frozen=True)
class Piece:
    """Offsets [start, end) of Kafka's log; the position of each is the offset plus `shift`."""

    start: int
    end: int
    shift: int


@dataclass(frozen=True)
class Hole:
    """Positions [first, next) that have no record in Kafka any more. lost: how many records they had."""

    first: int
    next: int
    lost: int


@dataclass(frozen=True)
class PartitionLog:
    """All eras of a partition's log, oldest first; there is at least one."""

    eras: tuple[Era, ...]

    @property
    def newest(self) -> Era:
        return self.eras[-1]

    @property
    def standing(self) -> tuple[Era, ...]:
        """The eras that Kafka's log has offsets of, oldest first."""
        found = [self.newest]
        for each in reversed(self.eras):
            if each.topic_id != self.newest.topic_id:
                break
            if each.begins < found[-1].begins:
                found.append(each)
        return tuple(reversed(found))

    def position(self, offset: int) -> int:
        """The position of Kafka's offset of now."""
        own = [each for each in self.standing if each.begins <= offset]
        return position_at((own or self.standing)[-1 if own else 0].era, offset)

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """What Kafka's log has of the positions [start, end), in order."""
        for low, high in self._spans():
            first, following = max(start, low), min(end, high)
            if first < following:
                shift = low - offset_of(low)
                yield Piece(first - shift, following - shift, shift)

    def records(self, start: int, end: int) -> int:
        """How many offsets of Kafka's log are between two positions."""
        return sum(each.end - each.start for each in self.pieces(start, end))

    def after(self, start: int, records: int, end: int) -> int:
        """The position after so many records from `start` on; `end` if there are no more."""
        if records >= self.records(start, end):
            return max(start, end)
        at = start
        for each in self.pieces(start, end):
            taken = min(records, each.end - each.start)
            if taken:
                at, records = each.start + taken + each.shift, records - taken
        return at

    def holes(self, start: int, end: int) -> Iterator[Hole]:
        """What Kafka's log lacks of the positions [start, end), in order.

        A hole ends where the next one begins, or records do. One without lost records lies between what was
        read of an era and the next era.
        """
        at = start
        while at < end:
            nearest = next(self.pieces(at, end), None)
            following = end if nearest is None else nearest.start + nearest.shift
            while at < following:
                until = self._reached(at)
                if until > at:
                    until = min(until, following)
                    yield Hole(at, until, until - at)
                else:
                    until = min(following, self._next_era(at))
                    yield Hole(at, until, 0)
                at = until
            if nearest is not None:
                at = nearest.end + nearest.shift

    def offset(self, position: int, end: int) -> int:
        """Kafka's offset of the first record from a position on; `end`, the log's own, if there is none."""
        return next((each.start for each in self.pieces(position, self.position(end))), end)

    def read_and_gone(self, position: int) -> tuple[int, int] | None:
        """The offsets [first, next) before the position that were read, and that Kafka's log lacks now."""
        later = [each for each in self.eras if each.era > era_of(position)]
        if not later:
            return None
        same = {each.era: each.topic_id for each in self.eras}.get(era_of(position))
        first = min(each.begins if each.topic_id == same else 0 for each in later)
        return (first, offset_of(position)) if first < offset_of(position) else None

    def given(self, end: int) -> int:
        """How many records the log was given in all its eras, if it ends at that offset of now."""
        older = sum(after.reached - before.begins for before, after in pairwise(self.eras))
        return older + end - self.newest.begins

    def _spans(self) -> Iterator[tuple[int, int]]:
        """The positions [low, high) of each standing era."""
        standing = self.standing
        for each, after in zip(standing, [*standing[1:], None], strict=True):
            high = position_at(each.era, after.begins) if after else position_at(each.era + 1, 0)
            yield position_at(each.era, each.begins), high

    def _reached(self, position: int) -> int:
        """The position up to which somebody had read this one's era; it is over."""
        after = self._after(position)
        return position_at(era_of(position), after.reached) if after else position

    def _next_era(self, position: int) -> int:
        after = self._after(position)
        return position_at(after.era, after.begins) if after else position_at(era_of(position) + 1, 0)

    def _after(self, position: int) -> Era | None:
        later = [each for each in self.eras if each.era > era_of(position)]
        return later[0] if later else None


#: The log of a partition that nobody has looked at.
UNREAD = PartitionLog((Era(0, "", 0, 0),))
