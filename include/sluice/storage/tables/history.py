"""Who changed what, when, from where: written with the change itself, and never changed afterwards.

A trigger of PostgreSQL refuses to change entries, and to delete any that is younger than `KEPT_DAYS`. Changes
outside PostgreSQL come through `sluice.stack.journal`.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from sluice.runtime.origin import origin
from sluice.storage.tables.schema import history

#: The most characters of a value before or after the change; the changed store has the whole value.
SHORT = 500
#: Entries at a time.
MOST = 1_000
#: Entries this young are deleted by nobody: the trigger has the same number.
KEPT_DAYS = 30


@dataclass(frozen=True)
class HistoryRecord:
    """One change."""

    id: int
    at: dt.datetime
    who: str  # a user, `host:ann` for a command on this machine, `sluice` for the platform itself
    origin: str  # where it came from: uid:1000, an address, `command line`, `platform`
    what: str  # task, list, topic, user, dashboard, ...
    name: str
    action: str
    before: str
    after: str


def record(
    connection: sa.Connection,
    *,
    who: str,
    what: str,
    name: str,
    action: str,
    before: object = "",
    after: object = "",
) -> None:
    """Write an entry in the change's own transaction; `before` and `after` are shortened."""
    connection.execute(
        sa.insert(history).values(
            who=who,
            origin=origin(),
            what=what,
            name=name,
            action=action,
            before=short(before),
            after=short(after),
        )
    )


def take_in(connection: sa.Connection, entries: Sequence[Mapping[str, Any]]) -> None:
    """Write entries that were made elsewhere, each with its time and a token; those that are there stay."""
    there = set(
        connection.scalars(
            sa.select(history.c.token).where(history.c.token.in_([each["token"] for each in entries]))
        )
    )
    fresh = [dict(each) for each in entries if each["token"] not in there]
    if fresh:
        connection.execute(sa.insert(history), fresh)


def entries(
    engine: sa.Engine,
    *,
    who: str | None = None,
    what: str | None = None,
    name: str | None = None,
    since: dt.datetime | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[HistoryRecord]:
    """The newest entries first. before: only those with a smaller id. limit: at most MOST."""
    c = history.c
    query = sa.select(*(c[field] for field in HistoryRecord.__dataclass_fields__)).order_by(c.id.desc())
    for column, wanted in ((c.who, who), (c.what, what), (c.name, name)):
        if wanted:
            query = query.where(column == wanted)
    if since is not None:
        query = query.where(c.at >= since)
    if before is not None:
        query = query.where(c.id < before)
    with engine.connect() as connection:
        return [HistoryRecord(*row) for row in connection.execute(query.limit(min(limit, MOST)))]


def drop(engine: sa.Engine, older_than: dt.datetime) -> int:
    """Delete the entries from before that time; returns how many."""
    with engine.begin() as connection:
        return int(connection.execute(sa.delete(history).where(history.c.at < older_than)).rowcount)


def short(value: object) -> str:
    """A value as an entry shows it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace("\0", "\\x00")
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"
