"""Task versions that the batch layer could not count on a day.

They have no results of that day, so nothing of theirs can be compared or published. The other versions' day
stands. The table `uncounted` has them until a run computes them, and an alert says so of each.
"""

from __future__ import annotations

import logging
from datetime import date

import sqlalchemy as sa

from sluice.engine.set_aside import Failures
from sluice.storage import alerts, uncounted

log = logging.getLogger(__name__)

SOURCE = "nightly"


def record(database: sa.Engine, topic: str, day: date, failed: Failures) -> None:
    """Make these the versions that the day lacks, with what each raised; their alerts follow."""
    prefix = f"{topic} {day}: task "
    told = {}
    for (task_id, version), why in failed.items():
        name = f"{prefix}{task_id}v{version}"
        told[name] = f"{name} could not be counted: {why}"
        log.error("%s", told[name])
    with database.begin() as connection:
        uncounted.replace(connection, topic, day, failed)
        alerts.sync_within(connection, SOURCE, told, prefix=prefix)
