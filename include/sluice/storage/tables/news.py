"""What is new: commits that changed a task's numbers, publications, and changes of the past, of all tasks.

A look costs a few queries, however many listen. It reads what changed since the look before, so it does not
depend on how much is stored.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.commits import Version
from sluice.storage.tables.past import TopicPast, past_of

#: The digest of a topic without publications.
NONE = ""


@dataclass(frozen=True)
class Published:
    """The publications of a topic: the newest of them, and a digest of all."""

    digest: str = NONE
    day: date | None = None
    at: datetime | None = None


@dataclass(frozen=True)
class TopicNews:
    """A topic as of one look."""

    commit: int  # the newest; 0 before the first
    #: Which commits changed a version last, of those after commit `since`.
    changed: Mapping[Version, int]
    since: int
    published: Published
    past: TopicPast = field(default_factory=TopicPast)


@dataclass(frozen=True)
class NewsSnapshot:
    """Everything as of one moment: the live tasks by name, with topic and version, and their topics."""

    tasks: Mapping[str, tuple[str, Version]]
    topics: Mapping[str, TopicNews]


class News:
    """Looks at one database; threads wait for each other."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._known: dict[str, TopicNews] = {}
        self._lock = threading.Lock()

    def look(self) -> NewsSnapshot:
        """What is new now."""
        with self._lock, self._engine.connect() as connection:
            tasks = _tasks(connection)
            topics = {topic for topic, _ in tasks.values()}
            live = {version for _, version in tasks.values()}
            published = _published(connection, topics)
            found = {}
            for topic, commit in sorted(_heads(connection, topics).items()):
                before = self._known.get(topic)
                # Another database is at this address, or it is the first look: nothing is known of before.
                if before is None or before.commit > commit:
                    before = TopicNews(commit, {}, commit, Published())
                changed = {version: seq for version, seq in before.changed.items() if version in live}
                if before.commit < commit:
                    changed |= _changed(connection, topic, before.commit, commit)
                own = published.get(topic, Published())
                moved = (commit, own) != (before.commit, before.published)
                past = past_of(connection, topic, before.past, moved=moved)
                found[topic] = TopicNews(commit, changed, before.since, own, past)
            self._known = found
            return NewsSnapshot(tasks, found)


def _tasks(connection: sa.Connection) -> dict[str, tuple[str, Version]]:
    t = schema.tasks.c
    query = sa.select(t.name, t.topic, t.id, t.version).where(t.deleted_at.is_(None))
    return {row.name: (row.topic, (row.id, row.version)) for row in connection.execute(query)}


def _heads(connection: sa.Connection, topics: set[str]) -> dict[str, int]:
    """The newest commit of each topic; each is one step in the commits' index."""
    heads = {}
    for topic in topics:
        c = schema.commits.c
        heads[topic] = connection.scalar(sa.select(sa.func.max(c.seq)).where(c.topic == topic)) or 0
    return heads


def _changed(connection: sa.Connection, topic: str, after: int, until: int) -> dict[Version, int]:
    """The versions that the commits from `after` (exclusive) to `until` changed, and which did so last."""
    t = schema.state_periods.c
    query = sa.select(t.task_id, t.version, sa.func.max(t.seq).label("seq"))
    query = query.where(t.topic == topic, t.seq > after).group_by(t.task_id, t.version)
    # A commit that came after the head was read is told with the next head.
    return {(row.task_id, row.version): min(row.seq, until) for row in connection.execute(query)}


def _published(connection: sa.Connection, topics: set[str]) -> dict[str, Published]:
    t = schema.days.c
    query = sa.select(t.topic, t.day, t.published_at).where(t.topic.in_(topics), t.published_at.is_not(None))
    days: dict[str, list[tuple[datetime, date]]] = {}
    for row in connection.execute(query.order_by(t.topic, t.day)):
        days.setdefault(row.topic, []).append((row.published_at, row.day))
    return {topic: _of(own) for topic, own in days.items()}


def _of(days: list[tuple[datetime, date]]) -> Published:
    at, day = max(days)
    whole = "".join(f"{day} {at.isoformat()}\n" for at, day in days)
    return Published(f"{zlib.crc32(whole.encode()):08x}", day, at)
