"""Deletes a topic that was made by mistake: from Kafka, and its description.

A topic stays once a record of it was counted or archived. Results, offsets and the master dataset refer to it
by its name, and a new topic of that name would be taken for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from sluice.collection import inventory
from sluice.runtime.crash_points import crash_point
from sluice.runtime.settings import Settings
from sluice.storage.tables import history, schema
from sluice.tasks import versions
from sluice.tasks.topics import DEFAULT_TOPIC, UnknownTopic
from sluice.transmission.topics import TopicMissing, Topics

#: What is known of a topic that nobody counted: its format, which driver was to count it, and the commits
#: with which that driver noted that a task began and ended.
_FORGOTTEN = (
    (schema.topics, "name"),
    (schema.frozen_topics, "topic"),
    (schema.speed_topics, "topic"),
    (schema.commits, "topic"),
    (schema.log_eras, "topic"),
    (schema.epochs, "topic"),
    (schema.projections, "topic"),
    (schema.pruned, "topic"),
    (schema.task_ranges, "topic"),
)
#: A driver that had a task of the topic may commit once more.
_SETTLED = timedelta(minutes=1)
#: Rows that say that it was archived or computed. Retention leaves some of them for ever.
_USED = (
    (schema.archive_files, "the archive has lines of it"),
    (schema.archive_losses, "the archive has lines of it"),
    (schema.days, "a night has computed days of it"),
)
#: Kafka's own topics.
_INTERNAL = "__"


_BY_NAME = "and results and files go by its name. Without a task nothing reads it any more"


class TopicKept(ValueError):
    """The topic is used, so it is not deleted."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"topic {name!r} stays: {why}")


@dataclass(frozen=True)
class Deletable:
    """What would be deleted, or was."""

    name: str
    records: int | None  # that Kafka has; None: it has no such topic
    described: bool

    def __str__(self) -> str:
        parts = [] if self.records is None else [f"Kafka's topic with {self.records:,} records"]
        return " and ".join([*parts, *(["its description"] if self.described else [])])


def look(settings: Settings, database: sa.Engine, name: str) -> Deletable:
    """What `delete` would delete. Raises TopicKept, UnknownTopic, KafkaError."""
    with database.connect() as connection, Topics(settings) as topics:
        return _look(settings, connection, topics, name)


def delete(settings: Settings, database: sa.Engine, name: str, user: str) -> Deletable:
    """Delete the topic for this user. A run that was cut short is repeated by another.

    No task can be given the topic meanwhile. Raises TopicKept, UnknownTopic, KafkaError.
    """
    with versions.writing(database) as connection, Topics(settings) as topics:
        found = _look(settings, connection, topics, name)
        topics.delete(name)
        crash_point("topic_deleted")
        for table, column in _FORGOTTEN:
            connection.execute(sa.delete(table).where(table.c[column] == name))
        history.record(connection, who=user, what="topic", name=name, action="deleted", before=str(found))
    return found


def _look(settings: Settings, connection: sa.Connection, topics: Topics, name: str) -> Deletable:
    for why in _uses(settings, connection, name):
        raise TopicKept(name, why)
    query = sa.select(schema.topics.c.name).where(schema.topics.c.name == name)
    described = connection.execute(query).first() is not None
    try:
        spans = topics.spans(name, 0)
    except TopicMissing:
        if not described:
            raise UnknownTopic(name, connection.scalars(sa.select(schema.topics.c.name))) from None
        return Deletable(name, None, described)
    return Deletable(name, sum(span.end - span.start for span in spans.values()), described)


def _uses(settings: Settings, connection: sa.Connection, name: str) -> Iterator[str]:
    """Why the topic must stay, each with its remedy."""
    if name == DEFAULT_TOPIC or name.startswith(_INTERNAL):
        yield "the platform itself uses it"
    collected = inventory.load(settings)
    if collected.topic == name:
        hosts = ", ".join(each.host for each in collected.front_ends)
        yield f"the agents write to it (front-ends {hosts}): give `topic` in the inventory another name first"
    t = schema.tasks.c
    query = sa.select(t.name).where(t.topic == name, t.deleted_at.is_(None)).order_by(t.name)
    if tasks := connection.scalars(query).all():
        yield f"tasks read it ({', '.join(tasks)}): delete them first"
    for table, why in _USED:
        if connection.execute(sa.select(table.c.topic).where(table.c.topic == name).limit(1)).first():
            yield f"{why}, {_BY_NAME}"
    yield from _counted(connection, name)


def _counted(connection: sa.Connection, name: str) -> Iterator[str]:
    """Why the topic must stay if the speed layer has commits of it: one passed a record, or is too new."""
    c, p = schema.commits.c, schema.pruned.c
    rows = sa.select(c.start, c.end, c.committed_at).where(c.topic == name)
    first = connection.execute(rows.order_by(c.seq).limit(1)).first()
    last = connection.execute(rows.order_by(c.seq.desc()).limit(1)).first()
    pruned = connection.execute(sa.select(p.records).where(p.topic == name, p.records > 0)).first()
    if pruned or (first and last and _records(first.start, last.end)):
        yield f"the speed layer has counted it, {_BY_NAME}"
    elif last and datetime.now(UTC) - last.committed_at.astimezone(UTC) < _SETTLED:
        yield "the speed layer has only just left it: try again in a minute"


def _records(start: Mapping[str, int], end: Mapping[str, int]) -> bool:
    """Whether there are records between the two positions. A partition without one is at its first record."""
    return any(start.get(partition, 0) != offset for partition, offset in end.items())
