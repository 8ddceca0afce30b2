"""Openings and closings of alerts that nobody was told of yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa

from sluice.storage.schema import alerts

_RAISED = alerts.c.told_raised_at.is_(None)
_CLEARED = alerts.c.cleared_at.is_not(None) & alerts.c.told_cleared_at.is_(None)


@dataclass(frozen=True)
class AlertEvent:
    """An alert was raised or cleared."""

    id: int
    what: Literal["raised", "cleared"]
    source: str
    name: str
    message: str
    at: datetime


def events(engine: sa.Engine, most: int) -> list[AlertEvent]:
    """The events of the `most` oldest alerts that have any; raised comes before cleared."""
    a = alerts.c
    query = sa.select(a.id, a.source, a.name, a.message, a.raised_at, a.cleared_at, _RAISED, _CLEARED)
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


def told(engine: sa.Engine, some: Iterable[AlertEvent]) -> None:
    """Mark these events as told."""
    with engine.begin() as connection:
        for event in some:
            column = alerts.c.told_raised_at if event.what == "raised" else alerts.c.told_cleared_at
            change = sa.update(alerts).where(alerts.c.id == event.id).values({column: sa.func.now()})
            connection.execute(change)
