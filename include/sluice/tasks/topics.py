"""What the lines of each topic look like, as users described them.

Both layers must parse the same lines alike. So the layer that reads a topic's first line freezes the topic's
format (`TopicStore.freeze`), and a different format needs a new topic. The default grouping of a topic may
change at any time.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from pydantic import ValidationError

from sluice.runtime.nearest import nearest_or_all
from sluice.storage.tables import history, schema
from sluice.tasks import versions
from sluice.tasks.changes import ChangeAction
from sluice.tasks.document import read_yaml
from sluice.tasks.fit import check_task
from sluice.tasks.problem import Problem, TasksRefused, explain, named_twice
from sluice.tasks.storable import unstorable
from sluice.tasks.topic_spec import TopicSpec

log = logging.getLogger(__name__)

_topics, _frozen = schema.topics, schema.frozen_topics
#: The topic that a new platform collects into.
DEFAULT_TOPIC = "logs"
#: Programs that follow the topics look for new ones this often, in seconds.
TOPICS_SECONDS = 10.0


class TopicInUse(ValueError):
    """The topic already has lines, and another format was given for it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"topic {name!r} has lines already, read in the format that it has, which stays: describe a new "
            f"topic, apply its tasks there, and bring the lines by `sluice topics replay {name} --into TOPIC`"
        )


class UnknownTopic(LookupError):
    """Nobody described the topic, and no task reads it."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(
            f"there is no topic {name!r}, which nobody described and no task reads: "
            + nearest_or_all(name, known, "topics")
        )


@dataclass(frozen=True)
class Topic:
    """A topic as a user described it, or as the platform takes one without a description."""

    spec: TopicSpec
    tasks: int
    created_at: dt.datetime | None = None  # None: never described
    created_by: str | None = None


class TopicStore:
    """Reads and writes descriptions of topics; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def get(self, name: str) -> TopicSpec:
        """The topic's format: Apache's access log unless somebody described it."""
        with self._engine.connect() as connection:
            return topic_spec(connection, name)

    def freeze(self, name: str) -> TopicSpec:
        """The topic's format, from now on fixed, because the caller is about to read lines by it.

        What is fixed already is read without the lock: a host that stands still while it holds that would
        keep all others waiting.
        """
        with self._engine.connect() as connection:
            if _is_frozen(connection, name):
                return topic_spec(connection, name)
        with versions.writing(self._engine) as connection:
            if not _is_frozen(connection, name):
                connection.execute(sa.insert(_frozen).values(topic=name))
            return topic_spec(connection, name)

    def apply(self, spec: TopicSpec, user: str) -> ChangeAction:
        """Define what the topic's lines look like.

        Raises `TopicInUse` if the topic has lines of another format, and `TasksRefused` if a task does not
        fit or a text cannot be stored.
        """
        with versions.writing(self._engine) as connection:
            return self._apply(connection, spec, user)

    def apply_all(self, specs: Sequence[TopicSpec], user: str) -> Sequence[ChangeAction]:
        """Apply all specs or none; the pointers of `TasksRefused` are into the list."""
        with versions.writing(self._engine) as connection:
            return [self._numbered(connection, n, spec, user) for n, spec in enumerate(specs)]

    def list(self) -> list[Topic]:
        """The topics that somebody described or that a task reads, by name."""
        t = schema.tasks.c
        counted = sa.select(t.topic, sa.func.count()).where(t.deleted_at.is_(None)).group_by(t.topic)
        with self._engine.connect() as connection:
            tasks = {row[0]: int(row[1]) for row in connection.execute(counted)}
            described = {row.name: row for row in connection.execute(sa.select(_topics))}
        found = []
        for name in sorted({*tasks, *described}):
            row, count = described.get(name), tasks.get(name, 0)
            if row is None:
                found.append(Topic(TopicSpec(name=name), count))
            else:
                spec = TopicSpec.model_validate(row.spec)
                found.append(Topic(spec, count, row.created_at, row.created_by))
        return found

    def names(self) -> Sequence[str]:
        """The topics that are counted and archived, by name.

        These are the default topic and all topics that a task reads, even a paused one.
        """
        t = schema.tasks.c
        with self._engine.connect() as connection:
            read = connection.scalars(sa.select(t.topic).distinct().where(t.deleted_at.is_(None)))
            return sorted({DEFAULT_TOPIC, *read})

    def require(self, name: str, also: Iterable[str] = ()) -> None:
        """Raise UnknownTopic unless the topic is described, counted, or one of `also`."""
        known = {DEFAULT_TOPIC, *also, *(topic.spec.name for topic in self.list())}
        if name not in known:
            raise UnknownTopic(name, known)

    def names_or(self, known: Iterable[str]) -> Sequence[str]:
        """`names`; if the database does not answer, the `known` ones, or else the default topic."""
        try:
            return self.names()
        except sa.exc.DBAPIError as error:
            log.warning("cannot ask PostgreSQL for new topics: %s", error)
            return list(known) or [DEFAULT_TOPIC]

    def _numbered(self, connection: sa.Connection, number: int, spec: TopicSpec, user: str) -> ChangeAction:
        try:
            return self._apply(connection, spec, user)
        except TasksRefused as refused:
            raise refused.under(f"/{number}") from None

    def _apply(self, connection: sa.Connection, spec: TopicSpec, user: str) -> ChangeAction:
        row = connection.execute(sa.select(_topics).where(_topics.c.name == spec.name)).one_or_none()
        before = TopicSpec(name=spec.name) if row is None else TopicSpec.model_validate(row.spec)
        if before == spec and row is not None:
            return ChangeAction.UNCHANGED
        if not spec.reads_as(before):
            if _is_frozen(connection, spec.name):
                raise TopicInUse(spec.name)
            _check_tasks(connection, spec)
        document = spec.model_dump(mode="json", exclude_none=True)
        if problems := [*unstorable(document)]:
            raise TasksRefused(problems)
        history.record(
            connection,
            who=user,
            what="topic",
            name=spec.name,
            action=ChangeAction.CREATED if row is None else ChangeAction.CHANGED,
            before="" if row is None else row.spec,
            after=document,
        )
        if row is None:
            connection.execute(sa.insert(_topics).values(name=spec.name, spec=document, created_by=user))
            return ChangeAction.CREATED
        connection.execute(
            sa.update(_topics)
            .where(_topics.c.name == spec.name)
            .values(spec=document, created_by=user, created_at=sa.func.now())
        )
        return ChangeAction.CHANGED


def parse_topics(text: str) -> list[TopicSpec]:
    """The specs of a YAML list of topics; `TasksRefused` names everything that is wrong."""
    documents = read_yaml(text)
    if not isinstance(documents, list) or not documents:
        raise TasksRefused([Problem("", 'a list of topics is expected: start each with "- name: ..."')])
    specs: dict[int, TopicSpec] = {}
    problems: list[Problem] = []
    for number, document in enumerate(documents):
        try:
            specs[number] = TopicSpec.model_validate(document)
        except ValidationError as error:
            problems += explain(error, f"/{number}")
    problems += named_twice({number: spec.name for number, spec in specs.items()}, "topics")
    if problems:
        raise TasksRefused(problems)
    return [*specs.values()]


def topic_spec(connection: sa.Connection, name: str) -> TopicSpec:
    """The topic's format; a topic that nobody described is an access log."""
    query = sa.select(_topics.c.spec).where(_topics.c.name == name)
    document = connection.execute(query).scalar_one_or_none()
    return TopicSpec(name=name) if document is None else TopicSpec.model_validate(document)


def _is_frozen(connection: sa.Connection, name: str) -> bool:
    """Whether either layer has begun to read the topic's lines."""
    query = sa.select(_frozen.c.topic).where(_frozen.c.topic == name)
    return connection.execute(query).first() is not None


def _check_tasks(connection: sa.Connection, spec: TopicSpec) -> None:
    query = versions.current().where(schema.tasks.c.topic == spec.name).order_by(schema.tasks.c.name)
    tasks = [versions.as_task(row) for row in connection.execute(query)]
    problems = [
        Problem("", f"task {task.name!r} does not fit: {problem.message}")
        for task in tasks
        for problem in check_task(task.spec, spec)
    ]
    if problems:
        raise TasksRefused(problems)
