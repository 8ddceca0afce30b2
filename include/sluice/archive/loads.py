"""What a member knows of its partitions' loads and pace, and of its own speed, measured while it archives."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sluice.assignment.base import PartitionLoad
from sluice.assignment.smoothing import Smoothed
from sluice.transmission.identity import Message, held

#: The pace is that of the last minute: a partition's files come every few seconds.
PACE_SECONDS = 60.0
#: A rate of fewer seconds is too noisy to move partitions for.
SETTLED_SECONDS = 10.0
#: While more records than this wait in Kafka, a member does not wait for them, and works as fast as it can.
PLENTY = 10_000


@dataclass
class _Seen:
    """One partition: its record's mean size, how fast records come, and where it was in the last minute."""

    size: Smoothed = field(default_factory=Smoothed)
    arriving: Smoothed = field(default_factory=Smoothed)
    first: float | None = None
    end: tuple[float, int] | None = None
    waiting: int = 0
    positions: deque[tuple[float, int]] = field(default_factory=deque)


class Loads:
    """A member and the partitions that it has now. Times are seconds of a clock that only goes forward."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}
        self._fetched = 0  # bytes, since the last look at the member's work
        self._busy_since: float | None = None
        self._speed = Smoothed()

    def took(self, partition: int, messages: Sequence[Message]) -> None:
        """The member fetched these."""
        size = sum(map(held, messages))
        self._fetched += size
        self._of(partition).size.add(size / len(messages), 1.0)

    def look(self, partition: int, at: float, end: int, position: int) -> None:
        """At that time the log ended at `end`, and everything before `position` was archived."""
        seen = self._of(partition)
        if seen.end is not None and end >= seen.end[1]:
            seen.arriving.add((end - seen.end[1]) / max(at - seen.end[0], 1e-3), at - seen.end[0])
        seen.first = at if seen.first is None else seen.first
        seen.end, seen.waiting = (at, end), max(0, end - position)
        seen.positions.append((at, position))
        # The first one is as old as the span or older, so a pace is never of a shorter one.
        while len(seen.positions) > 1 and seen.positions[1][0] <= at - PACE_SECONDS:
            seen.positions.popleft()

    def worked(self, at: float, waiting: Collection[int]) -> None:
        """Note how many records of each partition waited in Kafka at the time `at`, for this member to fetch.

        What it fetched between two looks that both find plenty is what it can do: it fetches no faster than
        its writers take. At other times it waits, and a slow member looks like one with little to do; where
        few of its partitions have a backlog, it is only as fast as their writers. Where nothing was fetched,
        HDFS or Kafka was away, which says nothing about the member.
        """
        plenty = sum(waiting) > PLENTY and 2 * sum(map(bool, waiting)) > len(waiting)
        if plenty and self._fetched and self._busy_since is not None:
            seconds = max(at - self._busy_since, 1e-3)
            self._speed.add(self._fetched / seconds, seconds)
        self._busy_since, self._fetched = (at if plenty else None), 0

    def speed(self) -> float | None:
        """Bytes a second that the member can archive; None until it was seen at it for SETTLED_SECONDS."""
        return self._speed.rate if self._speed.seconds >= SETTLED_SECONDS else None

    def pace(self, partition: int) -> float | None:
        """Records archived a second, over the last minute or since the partition came; None at first."""
        positions = self._of(partition).positions
        if not positions or positions[0] == positions[-1]:
            return None
        (began, first), (ended, last) = positions[0], positions[-1]
        return max(0, last - first) / max(ended - began, 1e-3)

    def forget(self, partition: int) -> None:
        """The partition has another owner."""
        self._seen.pop(partition, None)

    def loads(self) -> dict[int, PartitionLoad]:
        """Bytes a second that come, and bytes that wait, of each partition seen for SETTLED_SECONDS."""
        return {
            number: PartitionLoad((seen.arriving.rate or 0.0) * seen.size.rate, seen.waiting * seen.size.rate)
            for number, seen in list(self._seen.items())
            if seen.first is not None and seen.end is not None and seen.size.rate is not None
            if seen.end[0] - seen.first >= SETTLED_SECONDS
        }

    def _of(self, partition: int) -> _Seen:
        return self._seen.setdefault(partition, _Seen())
