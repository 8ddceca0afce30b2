"""What became of a day's lines in both layers: how many each task counted, filtered out and skipped.

A day is not compared in this if one layer lacks numbers: earlier releases counted lines without them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from sluice.quality.day_hops import Hop
from sluice.storage.tables.days import Day
from sluice.storage.tables.tallies import (
    COUNTS,
    OFFLINE,
    ONLINE,
    TOPIC,
    Tally,
    TallyLayer,
    Version,
    known,
    of_day,
)
from sluice.tasks.spec import ActiveTask

_MEANING = {
    "counted": "lines that tasks counted",
    "filtered": "lines that tasks filtered out",
    "unmatched": "lines that tasks skipped as unmatched",
    "too_long": "lines that tasks skipped as too long",
}
#: Versions that are named where the layers differ.
NAMED = 20


@dataclass(frozen=True)
class LayerOutcomes:
    """The numbers of both layers, by task version (`TOPIC`: the topic's format); names are for people."""

    names: Mapping[Version, str]
    online: Mapping[Version, Tally]
    offline: Mapping[Version, Tally]

    def hops(self) -> list[Hop]:
        """The sums of all tasks, then the versions that differ."""
        tasks = [version for version in self.names if version != TOPIC]
        made = [
            Hop(
                f"speed layer and batch, {name}",
                f"{_MEANING[name]} online",
                sum(getattr(_of(self.online, version), name) for version in tasks),
                f"{_MEANING[name]} offline",
                sum(getattr(_of(self.offline, version), name) for version in tasks),
            )
            for name in COUNTS
        ]
        differing = [v for v in self.names if _of(self.online, v) != _of(self.offline, v)]
        for version in (TOPIC, *differing[:NAMED]):
            one, other = _of(self.online, version), _of(self.offline, version)
            for name in COUNTS:
                left, right = getattr(one, name), getattr(other, name)
                if left != right or (version == TOPIC and name == "unmatched"):
                    what = f"{self.names[version]}: {name}"
                    made.append(Hop(what, "lines online", left, "lines offline", right))
        return made

    def skipped(self) -> dict[str, dict[str, int]]:
        """By name, the offline numbers of those that skipped lines."""
        found = {name: _of(self.offline, version) for version, name in self.names.items()}
        return {
            name: {"unmatched": tally.unmatched, "too_long": tally.too_long}
            for name, tally in found.items()
            if tally.skipped
        }


def outcomes(
    database: sa.Engine, day: Day, tasks: Iterable[ActiveTask], without: Collection[Version] = ()
) -> LayerOutcomes | None:
    """The day's numbers; None if they were not counted then. `without`: versions that have none offline."""
    topic = day.topic
    if not (
        known(database, topic, day.day, TallyLayer.ONLINE)
        and known(database, topic, day.day, TallyLayer.OFFLINE)
    ):
        return None
    named = {(task.task_id, task.version): f"{task.spec.name} ({task.label})" for task in tasks}
    names = {TOPIC: f"topic {topic}", **{v: name for v, name in named.items() if v not in without}}
    online, offline = (of_day(database, topic, day.day, layers) for layers in (ONLINE, OFFLINE))
    return LayerOutcomes(names, online, offline)


def _of(found: Mapping[Version, Tally], version: Version) -> Tally:
    return found.get(version, Tally())
