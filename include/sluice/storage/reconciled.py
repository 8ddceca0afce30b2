"""How the last comparison of each day ended."""

from __future__ import annotations

from datetime import date, datetime

import sqlalchemy as sa

from sluice.storage.schema import reconciled_days


def note(engine: sa.Engine, topic: str, day: date, outcome: str, run_at: datetime) -> None:
    """Note the outcome of a comparison of the day. Only one process compares a day at a time."""
    table = reconciled_days
    with engine.begin() as connection:
        connection.execute(sa.delete(table).where(table.c.topic == topic, table.c.day == day))
        connection.execute(sa.insert(table).values(topic=topic, day=day, outcome=outcome, run_at=run_at))


def since(engine: sa.Engine, first: datetime) -> dict[tuple[date, str], str]:
    """How each day of a topic that was compared since then ended: {(day, topic): outcome}."""
    table = reconciled_days.c
    query = sa.select(table.day, table.topic, table.outcome).where(table.run_at >= first)
    with engine.connect() as connection:
        return {(day, topic): outcome for day, topic, outcome in connection.execute(query)}


def counted(connection: sa.Connection, since: datetime) -> dict[str, dict[str, int]]:
    """How many days ended in each outcome, by topic, of those compared since then."""
    table = reconciled_days.c
    query = sa.select(table.topic, table.outcome, sa.func.count()).where(table.run_at >= since)
    found: dict[str, dict[str, int]] = {}
    for topic, outcome, days in connection.execute(query.group_by(table.topic, table.outcome)):
        found.setdefault(topic, {})[outcome] = days
    return found
