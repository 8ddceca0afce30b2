"""Samples of the figures that operators read: those of the last 24 hours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.schema import figures

KEPT = timedelta(hours=24)


def add(engine: sa.Engine, at: datetime, document: Mapping[str, Any]) -> None:
    """Keep a sample, and delete those that are older than `KEPT`."""
    with engine.begin() as connection:
        connection.execute(sa.delete(figures).where(figures.c.at < at - KEPT))
        connection.execute(sa.insert(figures).values(at=at, figures=dict(document)))


def since(engine: sa.Engine, first: datetime, metric: str) -> list[tuple[datetime, Any]]:
    """The metric's values since then, oldest first: [(at, [[labels, value], ...]), ...].

    The list of values is empty where the sample lacks the metric.
    """
    query = sa.select(figures.c.at, figures.c.figures[metric]).where(figures.c.at >= first)
    with engine.connect() as connection:
        return [(at, values or []) for at, values in connection.execute(query.order_by(figures.c.at))]
