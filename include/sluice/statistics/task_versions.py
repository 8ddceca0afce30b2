"""Which task versions the batch layer counts, and over which offsets, as the speed layer committed it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from sluice.statistics.plan import Range
from sluice.storage import schema
from sluice.storage.commits import CommitLog, Version
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore


@dataclass(frozen=True)
class TaskVersions:
    """The task versions of a topic, where they are valid, and the commit up to which that is known."""

    tasks: Sequence[ActiveTask]
    ranges: Mapping[Version, Sequence[Range]]
    seq: int


def task_versions(database: sa.Engine, topic: str) -> TaskVersions:
    """Every version that ever counted lines of the topic, also of tasks that are deleted now."""
    head = CommitLog(
        database, topic
    ).head()  # before the ranges: what is committed in between shows as a change
    t = schema.task_ranges.c
    query = sa.select(t.task_id, t.version, t.start, t.end).where(t.topic == topic).order_by(t.first_seq)
    ranges: dict[Version, list[Range]] = defaultdict(list)
    with database.connect() as connection:
        for row in connection.execute(query):
            ranges[row.task_id, row.version].append(Range.of(row.start, row.end))
    store = TaskStore(database)
    tasks = [store.version(task_id, version) for task_id, version in sorted(ranges)]
    return TaskVersions(tasks, dict(ranges), head.seq if head else 0)
