"""Which task versions the batch layer counts, and over which offsets.

Both are as the speed layer committed them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

from sluice.archive.index import IndexedFile
from sluice.engine.plan import Range
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import CommitLog, Version
from sluice.storage.tables.days import Days
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore

#: How far the clocks of brokers and drivers may be apart.
CLOCKS_APART = timedelta(days=1)


@dataclass(frozen=True)
class TaskVersions:
    """A topic's task versions, where they are valid, and up to which commit that is known.

    `filled`: the versions that were filled backwards for a day, and the offsets that they count in addition
    to their ranges, up to the topic's revision `backfills`. `dropped`: the day's results are beyond
    retention, and nothing of it is counted.
    """

    tasks: Sequence[ActiveTask]
    ranges: Mapping[Version, Sequence[Range]]
    seq: int
    filled: Mapping[Version, Sequence[Range]] = field(default_factory=dict)
    backfills: int = 0
    dropped: bool = False


def task_versions(
    database: sa.Engine,
    topic: str,
    day: date | None = None,
    *,
    since: datetime | None = None,
    also: Collection[Version] = (),
) -> TaskVersions:
    """Every version that ever counted lines of the topic, also of tasks that are deleted now.

    With a day, they include what was filled backwards for it, and whether retention has dropped it. since:
    only those that counted lines that arrived from then on, and these `also`.
    """
    # Read before the rest, so that what is committed or filled in between shows as a change.
    backfills = Backfills(database).revision(topic)
    head = CommitLog(database, topic).head()
    filled = Backfills(database).filled(topic, day) if day is not None else []
    versions: set[Version] | None = None
    if since is not None:
        versions = {*also, *((each.task_id, each.version) for each in filled)}
        versions |= _not_over(database, topic, since)
    ranges = ranges_of(database, topic, versions)
    tasks = TaskStore(database).read_versions(ranges)
    return TaskVersions(
        tasks,
        ranges,
        head.seq if head else 0,
        {
            (each.task_id, each.version): [before(ranges[each.task_id, each.version])]
            for each in filled
            if each.projected
        },
        backfills,
        dropped=day is not None and Days(database, topic).dropped(day),
    )


def first_arrival(files: Iterable[IndexedFile]) -> datetime:
    """When the first line of these files of the archive arrived at the earliest, by any machine's clock."""
    first = min((file.arrival_min / 1000 for file in files), default=time.time())
    return datetime.fromtimestamp(first, UTC) - CLOCKS_APART


def _not_over(database: sa.Engine, topic: str, since: datetime) -> set[Version]:
    """The versions that were not over when the newest commit before then was made."""
    floor, t = RetentionBook(database, topic).floor(since), schema.task_ranges.c
    query = sa.select(t.task_id, t.version).distinct().where(t.topic == topic)
    if floor is not None:
        query = query.where(sa.or_(t.end_seq.is_(None), t.end_seq > floor.seq))
    with database.connect() as connection:
        return {(row.task_id, row.version) for row in connection.execute(query)}


def ranges_of(
    database: sa.Engine, topic: str, versions: Collection[Version] | None = None
) -> dict[Version, list[Range]]:
    """The offsets that each version counted or counts, in order; with `versions` only those of these."""
    t = schema.task_ranges.c
    query = sa.select(t.task_id, t.version, t.start, t.end).where(t.topic == topic).order_by(t.first_seq)
    if versions is not None:
        query = query.where(sa.tuple_(t.task_id, t.version).in_(sorted(versions)))
    ranges: dict[Version, list[Range]] = {}
    with database.connect() as connection:
        for row in connection.execute(query):
            ranges.setdefault((row.task_id, row.version), []).append(Range.of(row.start, row.end))
    return ranges


def before(ranges: Sequence[Range]) -> Range:
    """The offsets before a version's first commit: those that backfills of it count."""
    return Range.of({}, dict(ranges[0].start))
