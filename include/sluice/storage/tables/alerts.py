"""Alerts, raised once and cleared when their cause is over, and what nobody was told of them yet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy
from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables.schema import alerts

#: Between an alert's message and what became of it.
SINCE = "; since then: "
#: That nobody was told of yet.
_RAISED = alerts.c.told_raised_at.is_(None)
_CLEARED = alerts.c.cleared_at.is_not(None) & alerts.c.told_cleared_at.is_(None)


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


def clear(
    engine: sqlalchemy.Engine, source: str, names: Collection[str], before: datetime | None = None
) -> None:
    """Clear those of these alerts that are open, if they were raised before then."""
    own = [alerts.c.source == source, alerts.c.name.in_(names), alerts.c.cleared_at.is_(None)]
    if before is not None:
        own.append(alerts.c.raised_at < before)
    with engine.begin() as connection:
        connection.execute(update(alerts).where(*own).values(cleared_at=func.now()))


def note(engine: sqlalchemy.Engine, source: str, names: Collection[str], text: str) -> None:
    """Say what became of alerts that are open, instead of what was said of it before."""
    own = (alerts.c.source == source, alerts.c.name.in_(names), alerts.c.cleared_at.is_(None))
    with engine.begin() as connection:
        for row in connection.execute(select(alerts.c.id, alerts.c.message).where(*own)).all():
            message = row.message.partition(SINCE)[0] + SINCE + text
            connection.execute(update(alerts).where(alerts.c.id == row.id).values(message=message))


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


def drop(engine: sqlalchemy.Engine, before: datetime) -> int:
    """Delete the alerts that were cleared before then; returns how many. Open ones stay, however old."""
    with engine.begin() as connection:
        return int(connection.execute(sqlalchemy.delete(alerts).where(alerts.c.cleared_at < before)).rowcount)


@dataclass(frozen=True)
class AlertEvent:
    """An alert was raised or cleared."""

    id: int
    what: Literal["raised", "cleared"]
    source: str
    name: str
    message: str
    at: datetime


def untold_events(engine: sqlalchemy.Engine, most: int) -> list[AlertEvent]:
    """The events of the `most` oldest alerts that have any; raised comes before cleared."""
    a = alerts.c
    query = select(a.id, a.source, a.name, a.message, a.raised_at, a.cleared_at, _RAISED, _CLEARED)
    found = []
    with engine.connect() as connection:
        pending = query.where(_RAISED | _CLEARED).order_by(a.raised_at, a.id)
        for row in connection.execute(pending.limit(most)):
            number, source, name, message, raised_at, cleared_at, raised, cleared = row
            if raised:
                found.append(AlertEvent(number, "raised", source, name, message, raised_at))
            if cleared:
                found.append(AlertEvent(number, "cleared", source, name, message, cleared_at))
    return found


def mark_told(engine: sqlalchemy.Engine, some: Iterable[AlertEvent]) -> None:
    """Mark these events as told."""
    with engine.begin() as connection:
        for event in some:
            column = alerts.c.told_raised_at if event.what == "raised" else alerts.c.told_cleared_at
            change = update(alerts).where(alerts.c.id == event.id).values({column: func.now()})
            connection.execute(change)
