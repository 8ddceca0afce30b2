"""Task versions that the batch layer could not count on a day: told as alerts, until a run computes them.

They have no results of that day, so nothing of theirs can be compared or published; the others' day stands.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from datetime import date

import sqlalchemy as sa

from sluice.engine.set_aside import Failures, Version
from sluice.storage import alerts

log = logging.getLogger(__name__)

SOURCE = "nightly"


def tell(database: sa.Engine, topic: str, day: date, failed: Failures) -> None:
    """Make the open alerts of a topic's day these versions, with what each raised."""
    prefix = _prefix(topic, day)
    wrong = {
        f"{prefix}{task_id}v{version}": f"{prefix}{task_id}v{version} could not be counted: {why}"
        for (task_id, version), why in failed.items()
    }
    for message in wrong.values():
        log.error("%s", message)
    alerts.sync(database, SOURCE, wrong, prefix=prefix)


def uncounted(database: sa.Engine, topic: str) -> dict[Version, set[date]]:
    """The days that versions of a topic have no offline results of."""
    found: defaultdict[Version, set[date]] = defaultdict(set)
    for alert in alerts.open_alerts(database, SOURCE):
        where, _, label = alert.name.rpartition(": task ")
        name, _, day = where.rpartition(" ")
        if name == topic:
            task_id, version = label.split("v")
            found[int(task_id), int(version)].add(date.fromisoformat(day))
    return dict(found)


def _prefix(topic: str, day: date) -> str:
    return f"{topic} {day}: task "
