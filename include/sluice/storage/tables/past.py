"""How the past of a topic changed: days filled backwards, and published days that are out of date."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date

import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.commits import Version
from sluice.storage.tables.days import Day, out_of_date

#: The digest of no days.
NONE = ""


@dataclass(frozen=True)
class TopicPast:
    """The past of a topic as of one look."""

    revision: int = 0  # how often its filled days changed
    #: The revision at which each day of a version was filled last.
    filled: Mapping[tuple[Version, date], int] = field(default_factory=dict)
    superseded: tuple[date, ...] = ()  # published days that are to be computed again, or published again

    @property
    def digest(self) -> str:
        """Equal for equal superseded days."""
        whole = " ".join(map(str, self.superseded))
        return f"{zlib.crc32(whole.encode()):08x}" if whole else NONE


def past_of(connection: sa.Connection, topic: str, before: TopicPast, *, moved: bool) -> TopicPast:
    """The past now. `moved`: whether something else of the topic changed since the look before."""
    t = schema.backfill_revisions.c
    revision = connection.scalar(sa.select(t.revision).where(t.topic == topic)) or 0
    if revision == before.revision and not moved:
        return before
    if revision < before.revision:  # another database is at this address
        before = TopicPast()
    filled = before.filled
    if revision > before.revision:
        filled = {**filled, **_filled(connection, topic, before.revision)}
    return TopicPast(revision, filled, _superseded(connection, topic))


def _filled(connection: sa.Connection, topic: str, after: int) -> dict[tuple[Version, date], int]:
    t = schema.backfill_days.c
    query = sa.select(t.task_id, t.version, t.day, t.revision).where(t.topic == topic, t.revision > after)
    return {((row.task_id, row.version), row.day): row.revision for row in connection.execute(query)}


def _superseded(connection: sa.Connection, topic: str) -> tuple[date, ...]:
    t = schema.days
    query = sa.select(t).where(t.c.topic == topic, t.c.published_at.is_not(None)).order_by(t.c.day)
    days = [Day(**row._mapping) for row in connection.execute(query)]
    late = out_of_date(connection, topic, days)
    return tuple(day.day for day in days if day.day in late or not day.is_final)
