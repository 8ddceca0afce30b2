"""Ask for a rebuild, or only what it would do: the same for the command, the pages and the REST API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa

from sluice.batch.backfill.ask import check_order
from sluice.batch.rebuild.scope import (
    NothingToRebuild,
    PlannedDay,
    RebuildScope,
    planned,
    scope,
    versions_with_state,
    with_state,
)
from sluice.runtime.settings import Settings
from sluice.storage.tables.commits import Version
from sluice.storage.tables.rebuilds import Rebuild, Rebuilds, RebuildState
from sluice.tasks.store import TaskStore

DAG = "rebuild"
MIB = 1 << 20


class NothingCountable(ValueError):
    """The archive does not have all lines of any period that a rebuild was asked for."""


@dataclass(frozen=True)
class WantedRebuild:
    """What is to be counted again: periods of a topic that touch a day from `first` to `last`.

    task: the name of a task; None for all of the topic. first, last: None where there is no limit.
    """

    topic: str
    task: str | None = None
    first: date | None = None
    last: date | None = None


@dataclass(frozen=True)
class AskedRebuild:
    """A rebuild that was asked for. left_out: what is said of periods that it leaves out; empty without."""

    rebuild: Rebuild
    left_out: str


@dataclass(frozen=True)
class PlannedTask:
    """A task version, and how many of its periods a rebuild would count."""

    name: str
    label: str
    periods: int


@dataclass(frozen=True)
class RebuildPlan:
    """What a rebuild would do now. left_out: as of `AskedRebuild`."""

    tasks: tuple[PlannedTask, ...]
    days: tuple[PlannedDay, ...]
    left_out: str

    @property
    def periods(self) -> int:
        return sum(each.periods for each in self.tasks)

    @property
    def files(self) -> int:
        """How often a file is read: once for each of its days."""
        return sum(each.files for each in self.days)

    @property
    def lines(self) -> int:
        """The lines of the days, doubles included."""
        return sum(each.lines for each in self.days)

    @property
    def bytes(self) -> int:
        """The bytes of these files in HDFS, each as often as it is read."""
        return sum(each.bytes for each in self.days)

    @property
    def sums(self) -> str:
        """All of it, in words."""
        return (
            f"{self.periods:,} periods, {len(self.days):,} days, {self.lines:,} lines (doubles included); "
            f"{self.files:,} files of {self.bytes / MIB:,.1f} MiB, each once for each of its days"
        )


def ask(database: sa.Engine, wanted: WantedRebuild, user: str) -> AskedRebuild:
    """Record the rebuild; the DAG carries it out. The same one, if it has not begun, is not asked for twice.

    Raises BadDays, UnknownTask, NothingToRebuild, NothingCountable.
    """
    versions, found = _checked(database, wanted)
    book = Rebuilds(database)
    same = (tuple(versions), wanted.first, wanted.last, RebuildState.REQUESTED)
    for each in book.unfinished(wanted.topic):
        if (each.versions, each.first_day, each.last_day, each.state) == same:
            return AskedRebuild(each, found.left_out)
    asked = book.request(wanted.topic, versions, wanted.first, wanted.last, user=user)
    return AskedRebuild(asked, found.left_out)


def plan(settings: Settings, database: sa.Engine, wanted: WantedRebuild) -> RebuildPlan:
    """What the rebuild would do if it began now; nothing is changed. Raises what `ask` raises."""
    _, found = _checked(database, wanted)
    store = TaskStore(database)
    tasks = tuple(
        PlannedTask(
            store.version(*version).spec.name,
            f"{version[0]}v{version[1]}",
            sum(key[:2] == version for key in found.keys),
        )
        for version in found.versions
    )
    return RebuildPlan(tasks, tuple(planned(settings, wanted.topic, found.days)), found.left_out)


def _checked(database: sa.Engine, wanted: WantedRebuild) -> tuple[list[Version], RebuildScope]:
    """The versions, and what of them would be counted again."""
    topic, first, last = wanted.topic, wanted.first, wanted.last
    check_order(first, last)
    versions = versions_with_state(database, topic, wanted.task)
    found = scope(database, topic, with_state(database, topic, versions), first, last)
    if found.keys:
        return versions, found
    if found.expired:
        raise NothingCountable(f"topic {topic!r}: {found.left_out}. Nothing is left to count")
    raise NothingToRebuild(
        f"topic {topic!r} has no state of days from {first or 'the first'} to {last or 'the last'}, or "
        "retention dropped it: there is nothing to count again. Name other days"
    )
