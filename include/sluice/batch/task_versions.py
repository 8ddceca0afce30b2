"""Which task versions the batch layer counts, and over which offsets.

Both are as the speed layer committed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import sqlalchemy as sa

from sluice.engine.plan import Range
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import CommitLog, Version
from sluice.storage.tables.days import Days
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore


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


def task_versions(database: sa.Engine, topic: str, day: date | None = None) -> TaskVersions:
    """Every version that ever counted lines of the topic, also of tasks that are deleted now.

    With a day, they include what was filled backwards for it, and whether retention has dropped it.
    """
    # Read before the rest, so that what is committed or filled in between shows as a change.
    backfills = Backfills(database).revision(topic)
    head = CommitLog(database, topic).head()
    ranges = ranges_of(database, topic)
    store = TaskStore(database)
    tasks = [store.version(task_id, version) for task_id, version in sorted(ranges)]
    filled = Backfills(database).filled(topic, day) if day is not None else []
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


def ranges_of(database: sa.Engine, topic: str, version: Version | None = None) -> dict[Version, list[Range]]:
    """The offsets that each version counted or counts, in order; with `version` only that one's."""
    t = schema.task_ranges.c
    query = sa.select(t.task_id, t.version, t.start, t.end).where(t.topic == topic).order_by(t.first_seq)
    if version is not None:
        query = query.where(t.task_id == version[0], t.version == version[1])
    ranges: dict[Version, list[Range]] = {}
    with database.connect() as connection:
        for row in connection.execute(query):
            ranges.setdefault((row.task_id, row.version), []).append(Range.of(row.start, row.end))
    return ranges


def before(ranges: Sequence[Range]) -> Range:
    """The offsets before a version's first commit: those that backfills of it count."""
    return Range.of({}, dict(ranges[0].start))
