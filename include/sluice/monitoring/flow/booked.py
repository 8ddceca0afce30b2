"""What the database's books say of a topic: lines at each hop, and how far each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from sluice.monitoring import sampled
from sluice.storage.tables import schema

LATELY = timedelta(hours=24)


@dataclass(frozen=True)
class TopicBooks:
    """A topic's books. hops: lines by hop, as `sampled.hops`; dead: dead letters of the last 24 hours."""

    hops: Mapping[str, int]
    dead: int
    archived: datetime | None  # when the newest archived line arrived
    computed: str  # the newest day that a night computed; empty: none
    computed_at: datetime | None
    published: str
    published_at: datetime | None

    @property
    def lines_a_record(self) -> float | None:
        """How many lines a record of Kafka has, on average; None before something was archived."""
        records = self.hops.get("archived_records")
        return self.hops.get("archived", 0) / records if records else None


def books(database: sa.Engine) -> dict[str, TopicBooks]:
    """The books of each topic that has some."""
    with database.connect() as connection:
        hops: dict[str, dict[str, int]] = {}
        for labels, lines in sampled.hops(connection)[sampled.HOPS]:
            hops.setdefault(labels["topic"], {})[labels["hop"]] = lines
        dead, days = _dead(connection), _days(connection)
        return {topic: _topic(connection, topic, found, dead, days) for topic, found in hops.items()}


def _topic(
    connection: sa.Connection,
    topic: str,
    hops: Mapping[str, int],
    dead: Mapping[str, int],
    days: Mapping[str, tuple[str, datetime | None, str, datetime | None]],
) -> TopicBooks:
    files = schema.archive_files.c
    newest = connection.scalar(sa.select(sa.func.max(files.arrival_max)).where(files.topic == topic))
    return TopicBooks(
        hops,
        dead.get(topic, 0),
        None if newest is None else datetime.fromtimestamp(newest / 1000, UTC),
        *days.get(topic, ("", None, "", None)),
    )


def _dead(connection: sa.Connection) -> dict[str, int]:
    letters = schema.dead_letters.c
    query = sa.select(letters.topic, sa.func.count()).where(letters.arrived_at >= datetime.now(UTC) - LATELY)
    return {topic: int(count) for topic, count in connection.execute(query.group_by(letters.topic))}


def _days(connection: sa.Connection) -> dict[str, tuple[str, datetime | None, str, datetime | None]]:
    """By topic: the newest day that was computed, when a day last was, and the same of published ones."""
    days = schema.days.c
    published = sa.case((days.published_at.is_not(None), days.day))
    query = sa.select(
        days.topic,
        sa.func.max(days.day),
        sa.func.max(days.computed_at),
        sa.func.max(published),
        sa.func.max(days.published_at),
    ).group_by(days.topic)
    return {
        topic: (_text(day), _aware(at), _text(final), _aware(final_at))
        for topic, day, at, final, final_at in connection.execute(query)
    }


def _text(day: object) -> str:
    return "" if day is None else str(day)


def _aware(at: datetime | None) -> datetime | None:
    return at if at is None or at.tzinfo else at.replace(tzinfo=UTC)
