"""Keeps the books in PostgreSQL small: what is over is summed up or deleted, and all sums stay.

Folded are the commits older than `retention.commit_days`, to a row a day (`storage.tables.folding`), and the
outcomes of lines of days that retention dropped. Deleted are the comparisons of these days, and alerts that
were cleared `retention.days` ago. Results, state and days are `batch.retention`'s.

Each step is a transaction, or several that are each whole. A run that died is made up for by the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import alerts, folding, reconciled, tallies
from sluice.storage.tables.retention import topics

log = logging.getLogger(__name__)


def run(settings: Settings, now: datetime | None = None) -> list[str]:
    """Sum up and delete what is over; returns what was done, a line each."""
    done = []
    for line in _steps(settings, now or datetime.now(UTC)):
        log.info("%s", line)
        done.append(line)
    return done


def _steps(settings: Settings, now: datetime) -> Iterator[str]:
    database, kept = engine(settings), settings.retention
    for topic in topics(database):
        folded = folding.fold(database, topic, now - timedelta(days=kept.commit_days))
        yield f"{topic}: {folded} commits folded"
        yield f"{topic}: {tallies.fold(database, topic)} outcomes of dropped days summed up"
        yield f"{topic}: {reconciled.drop(database, topic)} comparisons of dropped days deleted"
    yield f"{alerts.drop(database, now - timedelta(days=kept.days))} alerts deleted"
