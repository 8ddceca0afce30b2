"""Task versions that the batch layer could not count on a day.

They have no results of that day, so nothing of theirs can be compared or published. For the other versions
the day stands. The table `uncounted` has these versions until a run computes them, and each has an alert.
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
    """Record these as the versions that the day lacks, with what each raised, and their alerts."""
    prefix = f"{topic} {day}: task "
    told = {}
    for (task_id, version), why in failed.items():
        name = f"{prefix}{task_id}v{version}"
        told[name] = f"{name} could not be counted: {why}"
        log.error("%s", told[name])
    with database.begin() as connection:
        uncounted.replace(connection, topic, day, failed)
        alerts.sync_within(connection, SOURCE, told, prefix=prefix)
