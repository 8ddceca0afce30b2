"""The task versions that the batch layer could not count, by topic and day of event time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import schema
from sluice.storage.tables.commits import Version


def replace(connection: sa.Connection, topic: str, day: date, reasons: Mapping[Version, str]) -> None:
    """Make these the topic's uncounted versions of the day, each with the reason.

    A version that stays uncounted keeps its `since`.
    """
    t = schema.uncounted
    of_day = (t.c.topic == topic) & (t.c.day == day)
    still = sa.tuple_(t.c.task_id, t.c.version).in_(list(reasons))
    connection.execute(sa.delete(t).where(of_day, ~still if reasons else sa.true()))
    for (task_id, version), reason in reasons.items():
        row = insert(t).values(topic=topic, day=day, task_id=task_id, version=version, reason=reason)
        connection.execute(
            row.on_conflict_do_update(constraint=t.primary_key, set_={"reason": row.excluded.reason})
        )


def days_by_version(engine: sa.Engine, topic: str) -> dict[Version, set[date]]:
    """The days for which each uncounted version of the topic has no offline results."""
    t = schema.uncounted.c
    found: defaultdict[Version, set[date]] = defaultdict(set)
    with engine.connect() as connection:
        for row in connection.execute(sa.select(t.task_id, t.version, t.day).where(t.topic == topic)):
            found[row.task_id, row.version].add(row.day)
    return dict(found)
