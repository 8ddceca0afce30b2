"""Which periods a rebuild counts again, and which days of the archive that takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa

from sluice.archive import index
from sluice.runtime.days import days_of
from sluice.runtime.settings import Settings
from sluice.storage.tables import archive_expiry
from sluice.storage.tables.commits import Version
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.rebuilds import Rebuild
from sluice.storage.tables.recounts import Recounts
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore


class NothingToRebuild(LookupError):
    """The topic has no state of that task."""


@dataclass(frozen=True)
class RebuildScope:
    """The periods of a rebuild and the days that they touch.

    dropped: periods of the set-aside list whose days are all beyond retention. expired: periods that cannot
    be counted again, because the archive does not have all lines of their days any more.
    """

    keys: frozenset[PeriodKey]
    days: tuple[date, ...]
    dropped: frozenset[PeriodKey]
    expired: frozenset[PeriodKey] = frozenset()

    @property
    def left_out(self) -> str:
        """What is said of the expired periods; empty if there are none."""
        if not self.expired:
            return ""
        return (
            f"{len(self.expired):,} periods are left out: retention deleted lines of their days from the "
            "archive (retention.archive_days), so they cannot be counted again"
        )

    @property
    def versions(self) -> list[Version]:
        return sorted({key[:2] for key in self.keys})


@dataclass(frozen=True)
class PlannedDay:
    """What a day of a rebuild would read."""

    day: date
    files: int
    lines: int  # of the day, doubles included
    bytes: int  # of these files in HDFS


def scope_of(database: sa.Engine, rebuild: Rebuild) -> RebuildScope:
    """What the rebuild would count if it began now."""
    if rebuild.versions is None:
        listed = Recounts(database, rebuild.topic)
        keys = listed.waiting() | listed.expired()  # which retention may have dropped by now
    else:
        keys = set(with_state(database, rebuild.topic, rebuild.versions))
    return scope(database, rebuild.topic, keys, rebuild.first_day, rebuild.last_day)


def scope(
    database: sa.Engine,
    topic: str,
    keys: Iterable[PeriodKey],
    first: date | None = None,
    last: date | None = None,
) -> RebuildScope:
    """Those of the periods that touch a day from `first` to `last` and are not beyond retention."""
    store, dropped = TaskStore(database), RetentionBook(database, topic).dropped()
    tasks: dict[Version, ActiveTask] = {}
    with database.connect() as connection:
        lacking = archive_expiry.days(connection, topic)
    wanted, gone, expired, days = set[PeriodKey](), set[PeriodKey](), set[PeriodKey](), set[date]()
    for key in keys:
        if (version := key[:2]) not in tasks:
            tasks[version] = store.version(*version)
        own = days_of(key[2], tasks[version].spec.span.end(key[2]))
        if dropped.issuperset(own):
            gone.add(key)
        elif any((first is None or day >= first) and (last is None or day <= last) for day in own):
            if lacking.isdisjoint(own):
                wanted.add(key)
                days.update(own)
            else:
                expired.add(key)
    return RebuildScope(frozenset(wanted), tuple(sorted(days)), frozenset(gone), frozenset(expired))


def with_state(database: sa.Engine, topic: str, versions: Collection[Version]) -> Iterator[PeriodKey]:
    """The periods of these versions that have state, or had until they were set aside."""
    book, listed = RetentionBook(database, topic), Recounts(database, topic).all()
    for version in versions:
        starts = set(book.periods(*version)) | {
            each.period_start for each in listed if each.key[:2] == version
        }
        yield from ((*version, start) for start in sorted(starts))


def versions_with_state(database: sa.Engine, topic: str, task: str | None = None) -> list[Version]:
    """The topic's task versions that have state; with `task`, those of the task of that name.

    Raises UnknownTask, NothingToRebuild.
    """
    listed = {each.key[:2] for each in Recounts(database, topic).all()}
    found = sorted({*RetentionBook(database, topic).versions(), *listed})
    if task is not None:
        number = TaskStore(database).get(task).task_id
        found = [version for version in found if version[0] == number]
    if not found:
        of = (
            f"task {task!r} has counted nothing of topic {topic!r}"
            if task
            else f"topic {topic!r} has no state"
        )
        raise NothingToRebuild(
            f"{of}: there is nothing to count again. `sluice topics list` and `sluice tasks list` have the "
            "names"
        )
    return found


def planned(settings: Settings, topic: str, days: Iterable[date]) -> list[PlannedDay]:
    """What these days would read of the archive as it is now."""
    cut = index.positions(settings, topic)
    found = []
    for day in days:
        files = index.files_for(settings, topic, day, cut)
        lines = sum(file.days.get(day.isoformat(), 0) for file in files)
        found.append(PlannedDay(day, len(files), lines, sum(file.bytes for file in files)))
    return found
