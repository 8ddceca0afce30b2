"""What retention deleted from the archive: where each chain begins since, and which days lack lines.

The sums stay, so that the audit's books still hold.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import schema

_FLOORS, _DAYS = schema.archive_floors, schema.archive_expired_days


class DaysExpired(ValueError):
    """Days whose lines retention deleted from the archive."""

    def __init__(self, topic: str, days: Collection[date]) -> None:
        super().__init__(
            f"the archive of topic {topic!r} does not have all lines of "
            f"{', '.join(map(str, sorted(days)))} any more: retention deleted files of them "
            "(retention.archive_days). They cannot be counted again; what was computed of them stays as it is"
        )


@dataclass(frozen=True)
class ExpiredSums:
    """Of the files that retention deleted from a topic's archive."""

    records: int  # of Kafka
    lines: int


def floor(connection: sa.Connection, topic: str, topic_id: str, partition: int) -> int:
    """The position at which the partition's chain begins by design; files before it are gone."""
    t = _FLOORS.c
    where = (t.topic == topic) & (t.topic_id == topic_id) & (t.partition == partition)
    return int(connection.scalar(sa.select(t.next).where(where)) or 0)


def book(
    connection: sa.Connection,
    topic: str,
    topic_id: str,
    partition: int,
    *,
    following: int,
    sums: ExpiredSums,
    days: Mapping[date, int],
) -> None:
    """Record that the chain begins at `following` from now on, and how many lines of which days went."""
    added = insert(_FLOORS).values(
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        next=following,
        records=sums.records,
        lines=sums.lines,
    )
    again = {
        "next": following,
        "records": _FLOORS.c.records + sums.records,
        "lines": _FLOORS.c.lines + sums.lines,
    }
    keys = ["topic", "topic_id", "partition"]
    connection.execute(added.on_conflict_do_update(index_elements=keys, set_=again))
    for day, lines in days.items():
        row = insert(_DAYS).values(topic=topic, day=day, lines=lines)
        more = {"lines": _DAYS.c.lines + lines}
        connection.execute(row.on_conflict_do_update(index_elements=["topic", "day"], set_=more))


def sums(connection: sa.Connection, topic: str) -> ExpiredSums:
    t = _FLOORS.c
    query = sa.select(sa.func.sum(t.records), sa.func.sum(t.lines)).where(t.topic == topic)
    records, lines = connection.execute(query).one()
    return ExpiredSums(int(records or 0), int(lines or 0))


def days(connection: sa.Connection, topic: str) -> set[date]:
    """The days of event time (UTC) whose lines are not all in the archive any more."""
    return set(connection.scalars(sa.select(_DAYS.c.day).where(_DAYS.c.topic == topic)))


def check(engine: sa.Engine, topic: str, wanted: Collection[date]) -> None:
    """Raise DaysExpired if the archive does not have all lines of these days any more."""
    with engine.connect() as connection:
        if gone := days(connection, topic) & set(wanted):
            raise DaysExpired(topic, gone)
