"""Samples of the figures that operators read: those of the last 24 hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables.schema import figures

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


def several(
    engine: sa.Engine, first: datetime, metrics: Sequence[str]
) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """The samples since then, oldest first, each with the wanted metrics that it has."""
    query = sa.select(figures.c.at, *(figures.c.figures[metric] for metric in metrics))
    query = query.where(figures.c.at >= first).order_by(figures.c.at)
    with engine.connect() as connection:
        for at, *values in connection.execution_options(yield_per=100).execute(query):
            found = {metric: value for metric, value in zip(metrics, values, strict=True) if value}
            yield at if at.tzinfo else at.replace(tzinfo=UTC), found
