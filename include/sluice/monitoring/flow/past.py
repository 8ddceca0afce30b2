"""The last 24 hours, from the samples that the watch keeps: by minute, and in points of ten minutes.

A counter is kept as what it grew by, so that a process which starts again does no harm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.monitoring import sampled
from sluice.storage.tables import samples

KEPT = samples.KEPT.total_seconds()
#: Points of a line, and the seconds of one.
POINTS = 144
STEP = KEPT / POINTS
#: Shortest span, in seconds, over which a present rate is measured.
LEAST_SECONDS = 20.0

Key = tuple[str, ...]
#: Values by key, and by what is summed in it (an agent, a topic).
Raw = Mapping[tuple[Key, str], float]
Points = tuple[float | None, ...]
#: Names of agents to their tier.
Tiers = Mapping[str, str]
Document = Mapping[str, Any]

_COUNTERS = (
    "sluice_agent_blocks_total", "sluice_lines_total", "sluice_archiver_lines_total",
    "sluice_freshness_seconds", sampled.HOPS,
)  # fmt: skip
_GAUGES = (
    "sluice_channel_fill_ratio", "sluice_lag_seconds", "sluice_projector_lag_commits",
    "sluice_unpublished_days", "sluice_imbalance", sampled.HOT_KEYS, sampled.WORKER_LOAD,
)  # fmt: skip
METRICS = (*_COUNTERS, *_GAUGES)


@dataclass(frozen=True)
class Minute:
    """A sample. seconds: since the one before. grown: what counters grew by in them."""

    at: float  # seconds since the epoch
    seconds: float
    grown: Mapping[Key, float]
    gauges: Mapping[Key, float]


@dataclass(frozen=True)
class FlowPast:
    """The minutes of the last 24 hours, oldest first. last: the counters of the newest samples.

    Points are made once for a time: give them whole minutes. Not for several threads at a time.
    """

    minutes: tuple[Minute, ...] = ()
    last: tuple[tuple[float, Raw], ...] = ()
    drawn: dict[tuple[str, Key, float], Points] = field(default_factory=dict, compare=False, repr=False)

    @property
    def since(self) -> datetime | None:
        return datetime.fromtimestamp(self.minutes[0].at, UTC) if self.minutes else None

    def rates(self, key: Key, now: float) -> Points:
        """What the counters of this key grew by a second, in points."""

        def rate(minutes: Sequence[Minute]) -> float | None:
            found = [(each.grown[key], each.seconds) for each in minutes if key in each.grown]
            return sum(grew for grew, _ in found) / max(sum(s for _, s in found), 1.0) if found else None

        return self.points("rate", key, now, rate)

    def gauges(self, key: Key, now: float) -> Points:
        """The largest value of each point."""

        def largest(minutes: Sequence[Minute]) -> float | None:
            return max((each.gauges[key] for each in minutes if key in each.gauges), default=None)

        return self.points("gauge", key, now, largest)

    def points(
        self, name: str, key: Key, now: float, of: Callable[[Sequence[Minute]], float | None]
    ) -> Points:
        """A value of the minutes of each point; the last point ends now. name, key: what `of` makes."""
        if (name, key, now) not in self.drawn:
            slots: list[list[Minute]] = [[] for _ in range(POINTS)]
            for each in self.minutes:
                if (slot := _slot(each.at, now)) is not None:
                    slots[slot].append(each)
            self.drawn[name, key, now] = tuple(of(each) if each else None for each in slots)
        return self.drawn[name, key, now]

    def total(self, key: Key) -> float | None:
        """What the counters of this key grew by in all; None if they were never sampled."""
        found = [each.grown[key] for each in self.minutes if key in each.grown]
        return sum(found) if found else None

    def grew(self, key: Key) -> datetime | None:
        """When a counter of this key was last seen to grow."""
        for each in reversed(self.minutes):
            if each.grown.get(key):
                return datetime.fromtimestamp(each.at, UTC)
        return None

    def rate(self, key: Key, raw: Raw, now: float) -> float | None:
        """How fast the counters of this key grow now, a second; raw: their present values.

        None if no counter is known both now and before.
        """
        for at, before in reversed(self.last):
            if now - at >= LEAST_SECONDS:
                grew = grown(before, raw).get(key)
                return None if grew is None else grew / (now - at)
        return None


@dataclass
class History:
    """Reads the samples; each only once."""

    database: sa.Engine
    tiers: Callable[[], Tiers]
    _minutes: deque[Minute] = field(default_factory=deque)
    _last: deque[tuple[float, Raw]] = field(default_factory=lambda: deque(maxlen=3))
    _names: dict[Key, Key] = field(default_factory=dict)

    def read(self) -> FlowPast:
        """All that there is by now. Not for several threads at a time."""
        tiers, now = self.tiers(), datetime.now(UTC)
        newest = self._last[-1][0] if self._last else 0.0
        first = max(now - samples.KEPT, datetime.fromtimestamp(newest, UTC) + timedelta(milliseconds=1))
        for at, document in samples.several(self.database, first, METRICS):
            self._add(at.timestamp(), counters(document, tiers), gauges(document, tiers))
        while self._minutes and self._minutes[0].at < now.timestamp() - KEPT:
            self._minutes.popleft()
        return FlowPast(tuple(self._minutes), tuple(self._last))

    def _add(self, at: float, raw: Raw, measured: Mapping[Key, float]) -> None:
        if self._last:
            before, old = self._last[-1]
            grew = {self._name(key): value for key, value in grown(old, raw).items()}
            found = {self._name(key): value for key, value in measured.items()}
            self._minutes.append(Minute(at, at - before, grew, found))
        self._last.append((at, raw))

    def _name(self, key: Key) -> Key:
        """One object for equal keys: a day has 1,440 samples."""
        return self._names.setdefault(key, key)


def counters(document: Document, tiers: Tiers) -> dict[tuple[Key, str], float]:
    """The counters of a sample."""
    found: dict[tuple[Key, str], float] = {}
    for labels, value in document.get("sluice_agent_blocks_total", ()):
        if labels["way"] == "taken" and labels["agent"] in tiers:
            found[("blocks", tiers[labels["agent"]]), labels["agent"]] = value
            found[("agent", labels["agent"]), ""] = value
    for labels, value in document.get("sluice_lines_total", ()):
        found[("lines",), f"{labels['topic']} {labels['outcome']}"] = value
        found[("lines", labels["topic"], labels["outcome"]), ""] = value
    for labels, value in document.get("sluice_archiver_lines_total", ()):
        found[("archived",), labels["topic"]] = value
    for labels, value in document.get("sluice_freshness_seconds", ()):
        for bound, lines in value["upto"].items():
            found[("fresh", labels["topic"], bound), ""] = lines
    for labels, value in document.get(sampled.HOPS, ()):
        found[("hop", labels["topic"], labels["hop"]), ""] = value
        found[("hop", labels["hop"]), labels["topic"]] = value
    return found


def gauges(document: Document, tiers: Tiers) -> dict[Key, float]:
    """The gauges of a sample; of several of one key the largest."""
    found: dict[Key, float] = {}

    def take(value: float, *key: str) -> None:
        found[key] = max(value, found.get(key, value))

    for labels, value in document.get("sluice_channel_fill_ratio", ()):
        take(value, "fill", tiers.get(labels["agent"], ""))
    for labels, value in document.get("sluice_lag_seconds", ()):
        take(value, "lag", labels["hop"])
    for _, value in document.get("sluice_projector_lag_commits", ()):
        take(value, "lag", "projector")
    unpublished = [value for _, value in document.get("sluice_unpublished_days", ())]
    if unpublished:
        take(sum(unpublished), "unpublished")
    for labels, value in document.get("sluice_imbalance", ()):
        take(value, "imbalance", labels["topic"], labels["task"])
    for labels, value in document.get(sampled.HOT_KEYS, ()):
        take(value, "hot", labels["topic"], labels["task"], *labels["key"])
    for labels, value in document.get(sampled.WORKER_LOAD, ()):
        take(value, "load", labels["topic"], labels["task"], str(labels["worker"]))
    return found


def grown(before: Raw, now: Raw) -> dict[Key, float]:
    """What the counters grew by; one that is smaller than before began again at 0."""
    found: dict[Key, float] = {}
    for (key, part), value in now.items():
        old = before.get((key, part))
        if old is not None:
            # The books shrink when retention drops a day: nothing came then.
            again = 0.0 if key[0] == "hop" else value
            found[key] = found.get(key, 0.0) + (value - old if value >= old else again)
    return found


def _slot(at: float, now: float) -> int | None:
    """Which point a time belongs to; None before the first. The last one ends now, or a little later."""
    slot = POINTS - 1 - max(0, int((now - at) // STEP))
    return slot if slot >= 0 else None
