"""What each rebalance of a consumer group gave to its members and took from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from sluice.storage.tables.schema import rebalances

#: Rows that are kept of a topic.
KEPT = 4_000


@dataclass(frozen=True)
class Rebalance:
    """A part of a rebalance: what a member lost, or a partition that it gained.

    The rows of one member, generation and time are of one rebalance. at: when it got them, or stopped reading
    them, by the database's clock, because members may run on several hosts. seconds: from then until it read
    all that this row says it gained; None if it did not come to that.
    """

    topic: str
    member: str
    generation: int
    at: datetime
    why: str
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    seconds: float | None


def ahead(engine: sa.Engine) -> timedelta:
    """By how much the database's clock is ahead of this host's, give or take half of the time to ask."""
    with engine.connect() as connection:
        before = datetime.now(UTC)
        theirs: datetime = connection.execute(sa.select(sa.func.now())).scalar_one()
        asked = datetime.now(UTC) - before
    return (theirs if theirs.tzinfo else theirs.replace(tzinfo=UTC)) - (before + asked / 2)


def add(engine: sa.Engine, rows: Sequence[Rebalance]) -> None:
    """Keep these rows of one topic, and delete its rows before the last KEPT."""
    if not rows:
        return
    mine = rebalances.c.topic == rows[0].topic
    with engine.begin() as connection:
        values = [{**vars(row), "gained": list(row.gained), "lost": list(row.lost)} for row in rows]
        connection.execute(sa.insert(rebalances), values)
        newest = sa.select(rebalances.c.id).where(mine).order_by(rebalances.c.id.desc())
        oldest = connection.scalar(newest.offset(KEPT).limit(1))
        if oldest is not None:
            connection.execute(sa.delete(rebalances).where(mine, rebalances.c.id <= oldest))


def last(connection: sa.Connection, topic: str, count: int) -> list[Rebalance]:
    """The topic's last ones, the newest first."""
    query = sa.select(rebalances).where(rebalances.c.topic == topic)
    found = connection.execute(query.order_by(rebalances.c.at.desc(), rebalances.c.id.desc()).limit(count))
    return [
        Rebalance(
            row.topic,
            row.member,
            row.generation,
            row.at if row.at.tzinfo else row.at.replace(tzinfo=UTC),
            row.why,
            tuple(row.gained),
            tuple(row.lost),
            row.seconds,
        )
        for row in found
    ]
