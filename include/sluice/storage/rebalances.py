"""What each rebalance of a consumer group gave to its members and took from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from sluice.storage.schema import rebalances

#: Rows that are kept of a topic.
KEPT = 1_000


@dataclass(frozen=True)
class Rebalance:
    """One member's part of a rebalance: it gained partitions, or it lost some.

    at: when it got them, or stopped reading them. seconds: from then until it read all that it gained; None
    if it did not come to that.
    """

    topic: str
    member: str
    generation: int
    at: datetime
    why: str
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    seconds: float | None


def add(engine: sa.Engine, rebalance: Rebalance) -> None:
    """Keep it, and delete the topic's rows before the last KEPT."""
    row = {**vars(rebalance), "gained": list(rebalance.gained), "lost": list(rebalance.lost)}
    mine = rebalances.c.topic == rebalance.topic
    with engine.begin() as connection:
        connection.execute(sa.insert(rebalances).values(row))
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
