"""Alerts, raised once and cleared when their cause is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.schema import alerts


@dataclass(frozen=True)
class Alert:
    source: str
    name: str
    message: str
    raised_at: datetime


def sync(
    engine: sqlalchemy.Engine, source: str, current: Mapping[str, str], prefix: str = ""
) -> tuple[list[str], list[str]]:
    """Make ``current`` ({name: message}) the open alerts of ``source``.

    Returns the names of the alerts that were raised and of those that were cleared. ``prefix``: touch only
    alerts whose name begins with it, so that several reporters can share a source. An alert that stays open
    keeps its time and gets the newest message. Two reporters at once do no harm, because an open alert is
    unique.
    """
    with engine.begin() as connection:
        return sync_within(connection, source, current, prefix)


def sync_within(
    connection: sqlalchemy.Connection, source: str, current: Mapping[str, str], prefix: str = ""
) -> tuple[list[str], list[str]]:
    """The same as `sync`, within the caller's transaction."""
    is_open = (alerts.c.source == source) & alerts.c.cleared_at.is_(None)
    query = select(alerts.c.name).where(is_open, alerts.c.name.startswith(prefix, autoescape=True))
    before = set(connection.scalars(query))
    over = before - set(current)
    connection.execute(update(alerts).where(is_open, alerts.c.name.in_(over)).values(cleared_at=func.now()))
    for name, message in current.items():
        row = insert(alerts).values(source=source, name=name, message=message)
        connection.execute(
            row.on_conflict_do_update(
                index_elements=[alerts.c.source, alerts.c.name],
                index_where=sqlalchemy.text("cleared_at IS NULL"),
                set_={"message": row.excluded.message},
            )
        )
    return sorted(set(current) - before), sorted(over)


def open_alerts(engine: sqlalchemy.Engine, source: str | None = None) -> list[Alert]:
    """The alerts that are open now, oldest first; only those of ``source`` if it is given."""
    query = (
        select(alerts.c.source, alerts.c.name, alerts.c.message, alerts.c.raised_at)
        .where(alerts.c.cleared_at.is_(None))
        .order_by(alerts.c.raised_at)
    )
    if source is not None:
        query = query.where(alerts.c.source == source)
    with engine.connect() as connection:
        return [Alert(*row) for row in connection.execute(query)]
