"""How the comparisons of each day ended, and what the newest ones found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables.schema import day_comparisons, dropped_days, reconciled_days

#: Comparisons of one day that are kept.
KEPT = 20


class ComparisonOutcome(StrEnum):
    """What a comparison of a day's two counts found."""

    AGREES = "agrees"  # the layers agree, so the day was published
    DIFFERS = "differs"  # they do not, so it was not
    SUPERSEDED = "superseded"  # the day is to be computed again, so nothing was published


@dataclass(frozen=True)
class DayCompared:
    """One comparison of a day; `details` as in the schema."""

    topic: str
    day: date
    run_at: datetime
    outcome: ComparisonOutcome
    compared: int
    differing: int
    details: Mapping[str, Any]


def _compared(row: sa.Row[Any]) -> DayCompared:
    return DayCompared(**{**row._mapping, "outcome": ComparisonOutcome(row.outcome)})


def note(engine: sa.Engine, found: DayCompared) -> None:
    """Note a comparison, and forget the day's oldest ones. Only one process compares a day at a time."""
    last, every = reconciled_days, day_comparisons
    own = (every.c.topic == found.topic) & (every.c.day == found.day)
    with engine.begin() as connection:
        connection.execute(sa.delete(last).where(last.c.topic == found.topic, last.c.day == found.day))
        values = {name: getattr(found, name) for name in ("topic", "day", "outcome", "run_at")}
        connection.execute(sa.insert(last).values(**values))
        connection.execute(sa.delete(every).where(own, every.c.run_at == found.run_at))
        kept = {**asdict(found), "details": _storable(found.details)}
        connection.execute(sa.insert(every).values(**kept))
        newest = sa.select(every.c.run_at).where(own).order_by(every.c.run_at.desc()).limit(KEPT)
        connection.execute(sa.delete(every).where(own, every.c.run_at.not_in(newest)))


def _storable(details: Mapping[str, Any]) -> Any:
    """Details without NULs, which PostgreSQL does not store: values of lines may have some."""
    return json.loads(json.dumps(details).replace("\\u0000", "\\ufffd"))


def drop(engine: sa.Engine, topic: str) -> int:
    """Delete the comparisons of days that retention dropped; returns how many. How they ended stays."""
    t, dropped = day_comparisons.c, dropped_days.c
    old = t.day.in_(sa.select(dropped.day).where(dropped.topic == topic))
    with engine.begin() as connection:
        return int(connection.execute(sa.delete(day_comparisons).where(t.topic == topic, old)).rowcount)


def of_day(engine: sa.Engine, topic: str, day: date) -> list[DayCompared]:
    """The comparisons of the day that are kept, the newest first."""
    t = day_comparisons
    query = sa.select(t).where(t.c.topic == topic, t.c.day == day).order_by(t.c.run_at.desc())
    with engine.connect() as connection:
        return [_compared(row) for row in connection.execute(query)]


def newest_of_days(engine: sa.Engine, topic: str, first: date, last: date) -> dict[date, DayCompared]:
    """The newest comparison of each day from `first` to `last` that has one."""
    t = day_comparisons
    query = sa.select(t).where(t.c.topic == topic, t.c.day.between(first, last)).order_by(t.c.run_at)
    with engine.connect() as connection:
        return {row.day: _compared(row) for row in connection.execute(query)}


def since(engine: sa.Engine, first: datetime) -> dict[tuple[date, str], str]:
    """How each day of a topic that was compared since then ended: {(day, topic): outcome}."""
    table = reconciled_days.c
    query = sa.select(table.day, table.topic, table.outcome).where(table.run_at >= first)
    with engine.connect() as connection:
        return {(day, topic): outcome for day, topic, outcome in connection.execute(query)}


def counted(connection: sa.Connection, since: datetime) -> dict[str, dict[str, int]]:
    """How many days ended in each outcome, by topic, of those compared since then."""
    table = reconciled_days.c
    query = sa.select(table.topic, table.outcome, sa.func.count()).where(table.run_at >= since)
    found: dict[str, dict[str, int]] = {}
    for topic, outcome, days in connection.execute(query.group_by(table.topic, table.outcome)):
        found.setdefault(topic, {})[outcome] = days
    return found
