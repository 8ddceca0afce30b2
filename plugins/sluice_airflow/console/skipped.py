"""What tasks skipped of the lines that have a time, for the pages of a task and of dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import sqlalchemy as sa

from sluice.storage.tables.tallies import (
    TOPIC,
    SkippedLine,
    Tally,
    Version,
    of_topic,
    of_version,
    samples,
    unknown_lines,
)
from sluice.tasks.versions import Task

#: Samples that a page shows, and tasks in the table.
SAMPLES, MOST = 10, 50


class Skipped(NamedTuple):
    """What a task version, or the topic, did with its lines."""

    tally: Tally
    untold: int  # lines of the topic that an earlier release counted, without what was skipped
    samples: list[SkippedLine]


class ByTask(NamedTuple):
    """A task that skipped lines."""

    task: Task
    tally: Tally


def skipped(database: sa.Engine, topic: str, version: Version = TOPIC) -> Skipped:
    """The sums of all days, and samples; of the topic's format if no version is given."""
    tally = Tally.sum(of_version(database, topic, version).values())
    with database.connect() as connection:
        untold = max(0, unknown_lines(connection, topic))
    return Skipped(tally, untold, samples(database, topic, version, limit=SAMPLES))


def by_task(database: sa.Engine, topic: str, tasks: Sequence[Task]) -> list[ByTask]:
    """The tasks that skipped lines in their newest version, those with the most first."""
    with database.connect() as connection:
        found = of_topic(connection, topic)
    rows = [ByTask(task, found[task.key]) for task in tasks if task.key in found and found[task.key].skipped]
    return sorted(rows, key=lambda row: (-row.tally.skipped, row.task.name))[:MOST]
