"""How fresh the results of topics are: when their newest commit was made."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import sqlalchemy as sa

from sluice.storage.schema import commits


def newest_commits(engine: sa.Engine, topics: Iterable[str]) -> dict[str, datetime]:
    """When the newest commit of each topic was made; topics without one are left out."""
    found = {}
    with engine.connect() as connection:
        for topic in topics:
            query = sa.select(commits.c.committed_at).where(commits.c.topic == topic)
            at = connection.execute(query.order_by(commits.c.seq.desc()).limit(1)).scalar()
            if at is not None:
                found[topic] = at if at.tzinfo else at.replace(tzinfo=UTC)
    return found
