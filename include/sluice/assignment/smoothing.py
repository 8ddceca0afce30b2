"""Loads of partitions and speeds of members, as they are measured: smoothed, so that a plan is not made of
noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.assignment.base import AssignedPartition, PartitionLoad

#: After this many seconds an older measurement counts half.
HALF_LIFE_SECONDS = 30.0
#: A rate of fewer seconds says nothing: a partition that was just added would count as an idle one.
SETTLED_SECONDS = 5.0


@dataclass
class Smoothed:
    """A rate, smoothed exponentially over time; None before it was measured."""

    half_life: float = HALF_LIFE_SECONDS
    rate: float | None = None
    seconds: float = 0.0  # for how long it was measured

    def add(self, rate: float, seconds: float) -> None:
        """The rate was this, for that many seconds."""
        if seconds <= 0 or not math.isfinite(rate):
            return
        kept = 0.0 if self.rate is None else 0.5 ** (seconds / self.half_life)
        self.rate = kept * (self.rate or 0.0) + (1 - kept) * rate
        self.seconds += seconds


@dataclass
class ObservedGroup:
    """What was seen of a group: where each partition's log ends, and what each member processed."""

    half_life: float = HALF_LIFE_SECONDS
    _ends: dict[AssignedPartition, tuple[float, float]] = field(default_factory=dict)
    _rates: dict[AssignedPartition, Smoothed] = field(default_factory=dict)
    _lags: dict[AssignedPartition, float] = field(default_factory=dict)
    _speeds: dict[str, Smoothed] = field(default_factory=dict)

    def log(self, at: float, partition: AssignedPartition, end: float, position: float) -> None:
        """At that second the log ended at `end` bytes, and its consumer was at `position` bytes."""
        before = self._ends.get(partition)
        if before is not None and before[0] < at and before[1] <= end:
            rate = self._rates.setdefault(partition, Smoothed(self.half_life))
            rate.add((end - before[1]) / (at - before[0]), at - before[0])
        self._ends[partition] = at, end
        self._lags[partition] = max(0.0, end - position)

    def processed(self, member: str, amount: float, busy: float) -> None:
        """The member processed `amount` bytes, and worked on them for `busy` seconds.

        Waiting for work is not counted, so an idle member does not seem slow.
        """
        if busy > 0:
            self._speeds.setdefault(member, Smoothed(self.half_life)).add(amount / busy, busy)

    def forget(self, member: str) -> None:
        """The member has left."""
        self._speeds.pop(member, None)

    def loads(self) -> dict[AssignedPartition, PartitionLoad]:
        """The load of each partition whose rate was seen for SETTLED_SECONDS."""
        return {
            partition: PartitionLoad(seen.rate, self._lags[partition])
            for partition, seen in self._rates.items()
            if seen.rate is not None and seen.seconds >= SETTLED_SECONDS
        }

    def speeds(self) -> Mapping[str, float]:
        """The speed of each member that was seen at work."""
        return {member: seen.rate for member, seen in self._speeds.items() if seen.rate is not None}
