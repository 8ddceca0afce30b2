"""The periods of several days that no reconciliation could compare yet.

A period is compared once all of its days are computed and counted online. Until then it waits here, and every
reconciliation of its topic checks whether it can be compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.runtime.days import DAY_MS, begin_ms
from sluice.storage.tables import schema
from sluice.storage.tables.commits import Version

_t = schema.open_periods


@dataclass(frozen=True)
class OpenPeriod:
    """One period of a task version, [start, end) in ms since the epoch."""

    task_id: int
    version: int
    start: int
    end: int


@dataclass(frozen=True)
class Overdue:
    """A topic's periods that have waited too long: how many, and when the first of them begins."""

    topic: str
    periods: int
    first: datetime

    def __str__(self) -> str:
        noun = "period has" if self.periods == 1 else "periods have"
        return (
            f"{self.periods} {noun} not been compared, the first begins at {self.first:%Y-%m-%dT%H:%M:%SZ}: "
            "a day of it is not computed, was superseded, or has a task version that could not be counted"
        )


def of_topic(engine: sa.Engine, topic: str) -> dict[Version, list[OpenPeriod]]:
    """The topic's open periods by task version, in order."""
    found: defaultdict[Version, list[OpenPeriod]] = defaultdict(list)
    query = sa.select(_t.c.task_id, _t.c.version, _t.c.start, _t.c.end).where(_t.c.topic == topic)
    with engine.connect() as connection:
        for row in connection.execute(query.order_by(_t.c.start)):
            found[row.task_id, row.version].append(OpenPeriod(*row))
    return dict(found)


def add(engine: sa.Engine, topic: str, periods: Iterable[OpenPeriod]) -> None:
    """Let these periods wait from now on; one that waits already keeps its `since`."""
    rows = [{"topic": topic, **asdict(each)} for each in periods]
    if rows:
        with engine.begin() as connection:
            connection.execute(insert(_t).values(rows).on_conflict_do_nothing())


def remove(engine: sa.Engine, topic: str, periods: Iterable[OpenPeriod]) -> None:
    """Let these periods wait no longer."""
    keys = [(each.task_id, each.version, each.start) for each in periods]
    if keys:
        named = sa.tuple_(_t.c.task_id, _t.c.version, _t.c.start).in_(keys)
        with engine.begin() as connection:
            connection.execute(sa.delete(_t).where(_t.c.topic == topic, named))


def remove_touching(connection: sa.Connection, topic: str, day: date) -> None:
    """Remove, within the caller's transaction, the periods that overlap this day (UTC)."""
    begin = begin_ms(day)
    touching = (_t.c.start < begin + DAY_MS) & (_t.c.end > begin)
    connection.execute(sa.delete(_t).where(_t.c.topic == topic, touching))


def overdue(engine: sa.Engine, before: datetime) -> list[Overdue]:
    """Topics with periods that ended, and began to wait, before this moment."""
    ended = _t.c.end < int(before.timestamp() * 1000)
    query = (
        sa.select(_t.c.topic, sa.func.count(), sa.func.min(_t.c.start))
        .where(_t.c.since < before, ended)
        .group_by(_t.c.topic)
        .order_by(_t.c.topic)
    )
    with engine.connect() as connection:
        return [
            Overdue(topic, periods, datetime.fromtimestamp(first / 1000, UTC))
            for topic, periods, first in connection.execute(query)
        ]
