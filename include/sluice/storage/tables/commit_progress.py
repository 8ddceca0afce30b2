"""How far the speed layer has committed a topic, now and some time ago, and when it did so last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from sluice.storage.tables.schema import commits


@dataclass(frozen=True)
class Committed:
    """Positions by partition: after the newest commit, and after the one that was the newest then."""

    now: Mapping[int, int]
    then: Mapping[int, int]


def committed(connection: sa.Connection, topic: str, since: datetime) -> Committed:
    """Partitions that no commit names are left out."""
    own = sa.select(commits.c.start, commits.c.end).where(commits.c.topic == topic)
    newest = own.order_by(commits.c.seq.desc()).limit(1)
    head = connection.execute(newest).one_or_none()
    if head is None:
        return Committed({}, {})
    # Walks back through the commits since then. Before the first one, the topic was where that begins.
    before = connection.execute(newest.where(commits.c.committed_at <= since)).one_or_none()
    then = before.end if before else connection.execute(own.order_by(commits.c.seq).limit(1)).one().start
    return Committed(
        {int(number): int(offset) for number, offset in head.end.items()},
        {int(number): int(offset) for number, offset in then.items()},
    )


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
