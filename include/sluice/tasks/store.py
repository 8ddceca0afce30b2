"""The tasks that are counted, with every version that ever was, in PostgreSQL.

A change never edits a version: it adds one, and the speed layer counts by it from its next batch on. Deleting
a task ends its newest version; its rows stay, for its results carry its id.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from sluice.storage import schema
from sluice.tasks.spec import ActiveTask, TaskSpec

log = logging.getLogger(__name__)

#: Writers wait for each other: two that apply the same file at once make one version, not two.
_LOCK = 0x51_0C_E1

_tasks, _versions = schema.tasks, schema.task_versions
_ActiveTasks = list[ActiveTask]  # `TaskStore.list` hides the built-in


class UnknownTask(LookupError):
    """There is no such task, or no such version of it."""


@dataclass(frozen=True)
class Task:
    """A task as it stands: its newest version."""

    task_id: int
    name: str
    topic: str
    version: int
    enabled: bool
    spec: TaskSpec
    created_at: dt.datetime  # of this version
    created_by: str


@dataclass(frozen=True)
class Change:
    """What applying one spec did."""

    name: str
    action: Literal["created", "changed", "unchanged"]
    task_id: int
    version: int


class TaskStore:
    """Reads and writes tasks; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def apply(self, specs: Sequence[TaskSpec], user: str) -> list[Change]:
        """Create what is new, give a new version to what changed, all or nothing; tasks not named stay."""
        with self._writing() as connection:
            return [self._apply(connection, spec, user) for spec in specs]

    def list(self, topic: str | None = None) -> list[Task]:
        """The tasks there are, by name."""
        query = self._current().order_by(_tasks.c.name)
        if topic is not None:
            query = query.where(_tasks.c.topic == topic)
        with self._engine.connect() as connection:
            return [_task(row) for row in connection.execute(query)]

    def get(self, name: str) -> Task:
        """The task of that name; `UnknownTask` if there is none."""
        with self._engine.connect() as connection:
            return self._get(connection, name)

    def delete(self, name: str, user: str) -> Task:
        """End the task; its name is free again. `UnknownTask` if there is none."""
        with self._writing() as connection:
            task = self._get(connection, name)
            connection.execute(
                sa.update(_tasks).where(_tasks.c.id == task.task_id).values(deleted_at=sa.func.now())
            )
        log.info("task %s (%sv%s) was deleted by %s", name, task.task_id, task.version, user)
        return task

    def active(self, topic: str) -> _ActiveTasks:
        """What the next batch of the topic counts, by id."""
        query = self._current().where(_tasks.c.topic == topic, _tasks.c.enabled).order_by(_tasks.c.id)
        with self._engine.connect() as connection:
            rows = [_task(row) for row in connection.execute(query)]
        return [ActiveTask(row.task_id, row.version, row.spec) for row in rows]

    def version(self, task_id: int, version: int) -> ActiveTask:
        """One version of a task, also of a deleted one; `UnknownTask` if there never was any such."""
        query = sa.select(_versions.c.spec).where(
            _versions.c.task_id == task_id, _versions.c.version == version
        )
        with self._engine.connect() as connection:
            spec = connection.execute(query).scalar_one_or_none()
        if spec is None:
            raise UnknownTask(
                f"task {task_id} has no version {version}: `sluice tasks list` shows what there is"
            )
        return ActiveTask(task_id, version, TaskSpec.model_validate(spec))

    def topics(self) -> Sequence[str]:
        """The topics that have an enabled task, by name."""
        query = sa.select(_tasks.c.topic).distinct().where(_tasks.c.deleted_at.is_(None), _tasks.c.enabled)
        with self._engine.connect() as connection:
            return sorted(connection.execute(query).scalars())

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._engine.begin() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            yield connection

    def _current(self) -> sa.Select[Any]:
        joined = (_versions.c.task_id == _tasks.c.id) & (_versions.c.version == _tasks.c.version)
        return (
            sa.select(
                _tasks.c.id,
                _tasks.c.name,
                _tasks.c.topic,
                _tasks.c.version,
                _tasks.c.enabled,
                _versions.c.spec,
                _versions.c.created_at,
                _versions.c.created_by,
            )
            .join(_versions, joined)
            .where(_tasks.c.deleted_at.is_(None))
        )

    def _get(self, connection: sa.Connection, name: str) -> Task:
        row = connection.execute(self._current().where(_tasks.c.name == name)).one_or_none()
        if row is None:
            raise UnknownTask(f"there is no task {name!r}: `sluice tasks list` shows what there is")
        return _task(row)

    def _apply(self, connection: sa.Connection, spec: TaskSpec, user: str) -> Change:
        row = connection.execute(self._current().where(_tasks.c.name == spec.name)).one_or_none()
        action: Literal["created", "changed"] = "changed"
        if row is None:
            insert = sa.insert(_tasks).values(name=spec.name, topic=spec.topic, version=1)
            task_id, version = connection.execute(insert.returning(_tasks.c.id)).scalar_one(), 1
            action = "created"
        else:
            task = _task(row)
            if task.spec == spec:
                return Change(spec.name, "unchanged", task.task_id, task.version)
            task_id, version = task.task_id, task.version + 1
            connection.execute(
                sa.update(_tasks).where(_tasks.c.id == task_id).values(topic=spec.topic, version=version)
            )
        connection.execute(
            sa.insert(_versions).values(
                task_id=task_id,
                version=version,
                spec=spec.model_dump(mode="json", exclude_none=True),
                created_by=user,
            )
        )
        return Change(spec.name, action, task_id, version)


def _task(row: sa.Row[Any]) -> Task:
    return Task(
        task_id=row.id,
        name=row.name,
        topic=row.topic,
        version=row.version,
        enabled=row.enabled,
        spec=TaskSpec.model_validate(row.spec),
        created_at=row.created_at,
        created_by=row.created_by,
    )
