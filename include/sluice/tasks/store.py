"""The tasks that are counted, with every version that ever existed, in PostgreSQL.

A change never edits a version: it adds one, and the speed layer counts by it from its next batch on. (A
version's description, how its lines are grouped and how its SELECT is written do not affect what it counts,
and may change.)
Deleting a task ends its newest version; its rows stay, because its results carry its id. A task that is
paused, or was set aside because it failed, is not counted until somebody resumes it: the same version then
counts again, over a new range of offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from pydantic import ValidationError

from sluice.storage.tables import schema
from sluice.tasks import versions
from sluice.tasks.changes import ChangeAction, Diff, changed_fields, compare
from sluice.tasks.fit import check_task
from sluice.tasks.lists import pins_of
from sluice.tasks.problem import Problem, TasksRefused
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.storable import unstorable
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import topic_spec
from sluice.tasks.versions import Change, HistoryEntry, Task, TaskChanged, TaskState, UnknownTask, writing

log = logging.getLogger(__name__)

#: How much of an error is kept: enough to see what went wrong, and it still fits a table on a screen.
ERROR_CHARACTERS = 2_000

_tasks, _versions = schema.tasks, schema.task_versions
# Inside `TaskStore`, its method `list` hides the built-in.
_ActiveTasks = list[ActiveTask]
_Changes = list[Change]
_Diffs = list[Diff]
_History = list[HistoryEntry]
_Pins = list[versions.Pins]


class TaskStore:
    """Reads and writes tasks; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        # What a version counts never changes, so `active` parses each one once and not with each batch.
        self._read: dict[str, dict[tuple[int, int], ActiveTask]] = {}

    def apply(
        self, specs: Sequence[TaskSpec], user: str, expected: Mapping[str, str | None] | None = None
    ) -> _Changes:
        """Create new tasks and give changed ones a new version, all or nothing; others stay.

        expected: by name, the tag that a task must still have, None for a task that must not be there yet.

        `TasksRefused` if a spec does not fit its topic, names a list that does not exist, or has a text that
        cannot be stored. `TaskChanged` if a task is not as expected.
        """
        with writing(self._engine) as connection:
            for name, tag in (expected or {}).items():
                task = _find(connection, name)
                if (task.tag if task else None) != tag:
                    raise TaskChanged(name, task, new=tag is None)
            pins = _check(connection, specs)
            return [self._apply(connection, spec, own, user) for spec, own in zip(specs, pins, strict=True)]

    def diff(self, specs: Sequence[TaskSpec]) -> _Diffs:
        """What `apply` would do with these specs; refuses what `apply` would refuse."""
        with self._engine.connect() as connection:
            _check(connection, specs)
            found = []
            for spec in specs:
                task = _find(connection, spec.name)
                found.append(compare(task.spec if task else None, spec, task.version if task else 0))
            return found

    def resolved(self, spec: TaskSpec) -> tuple[TaskSpec, TopicSpec]:
        """A spec as the engine would take it, and its topic's format.

        Refuses what `apply` would refuse, with pointers into the spec.
        """
        with self._engine.connect() as connection:
            pins, problems = _checked(connection, spec)
            if problems:
                raise TasksRefused(problems)
            (task,) = versions.with_lists(connection, [((0, 0), spec, pins)])
            return task.spec, topic_spec(connection, spec.topic)

    def list(self, topic: str | None = None) -> list[Task]:
        """All tasks that are not deleted, by name."""
        query = versions.current().order_by(_tasks.c.name)
        if topic is not None:
            query = query.where(_tasks.c.topic == topic)
        with self._engine.connect() as connection:
            return [versions.as_task(row) for row in connection.execute(query)]

    def is_new(self) -> bool:
        """Whether it never had a task; those that were deleted count too."""
        with self._engine.connect() as connection:
            return connection.execute(sa.select(_tasks.c.id).limit(1)).first() is None

    def get(self, name: str) -> Task:
        """The task with that name; `UnknownTask` if there is none."""
        with self._engine.connect() as connection:
            return versions.one(connection, name)

    def delete(self, name: str, user: str) -> Task:
        """End the task; its name is free again. `UnknownTask` if there is none."""
        with writing(self._engine) as connection:
            task = versions.one(connection, name)
            _update(connection, task, deleted_at=sa.func.now())
            versions.record(connection, task.key, "deleted", user)
        log.info("task %s (%s) was deleted by %s", name, task.label, user)
        return task

    def pause(self, name: str, user: str) -> Task:
        """Stop counting the task from the next batch on. `UnknownTask` if there is none."""
        with writing(self._engine) as connection:
            task = versions.one(connection, name)
            if task.enabled:
                _update(connection, task, enabled=False)
                versions.record(connection, task.key, "paused", user)
            return versions.one(connection, name)

    def resume(self, name: str, user: str, *, anew: bool = False) -> Task:
        """Count a paused or failed task from the next batch on, without the lines in between.

        anew: as a new version, which a backfill can fill with them. `UnknownTask` if there is none.
        """
        with writing(self._engine) as connection:
            task = versions.one(connection, name)
            if task.state != TaskState.ACTIVE:
                _update(connection, task, enabled=True, failed_at=None, error=None)
                was = f"after: {task.error}" if task.error else ""
                versions.record(connection, task.key, "resumed", user, was)
                if anew:
                    versions.advance(connection, task, task.spec, task.sets, by=user, why="counted anew")
            return versions.one(connection, name)

    def set_aside(self, task_id: int, version: int, message: str) -> bool:
        """Stop counting a version that failed, and show the error on the task.

        Returns whether that changed anything. It does not if the task has a newer version, is deleted, or was
        already set aside.
        """
        error = message.replace("\0", "\\x00")[:ERROR_CHARACTERS] or "no message"
        c = _tasks.c
        with writing(self._engine) as connection:
            changed = connection.execute(
                sa.update(_tasks)
                .where(c.id == task_id, c.version == version, c.deleted_at.is_(None), c.failed_at.is_(None))
                .values(failed_at=sa.func.now(), error=error)
            )
            if changed.rowcount:
                versions.record(connection, (task_id, version), "failed", versions.PLATFORM, error)
        if changed.rowcount:
            log.error("task %sv%s is set aside: %s", task_id, version, error)
        return bool(changed.rowcount)

    def history(self, name: str) -> _History:
        """What happened to the tasks with that name, including deleted ones, the oldest first.

        `UnknownTask` if there never was one.
        """
        c = schema.task_changes.c
        query = (
            sa.select(c.task_id, c.version, c.action, c.at, c.by, c.detail)
            .join(_tasks, _tasks.c.id == c.task_id)
            .where(_tasks.c.name == name)
            .order_by(c.id)
        )
        with self._engine.connect() as connection:
            found = [HistoryEntry(**row._mapping) for row in connection.execute(query)]
        if not found:
            raise UnknownTask(f"there never was a task {name!r}: `sluice tasks list` shows what there is")
        return found

    def active(self, topic: str) -> _ActiveTasks:
        """The tasks that the topic's next batch counts, by id; value lists are resolved.

        A task whose metrics no longer exist is set aside; the others go on.
        """
        c = _tasks.c
        query = versions.current().where(c.topic == topic, c.enabled, c.failed_at.is_(None)).order_by(c.id)
        known, broken = self._read.get(topic, {}), {}
        with self._engine.connect() as connection:
            rows = {(row.id, row.version): row for row in connection.execute(query)}
            new = []
            for (task_id, version), row in rows.items():
                if (old := known.get((task_id, version))) and _grouping(old.spec) == row.spec.get("grouping"):
                    continue
                try:
                    new.append(((task_id, version), TaskSpec.model_validate(row.spec), row.sets))
                except ValidationError as error:
                    broken[task_id, version] = "; ".join(found["msg"] for found in error.errors())
            known |= {(task.task_id, task.version): task for task in versions.with_lists(connection, new)}
        for (task_id, version), message in broken.items():
            self.set_aside(task_id, version, message)
        self._read[topic] = {key: known[key] for key in rows if key in known}
        return [*self._read[topic].values()]

    def version(self, task_id: int, version: int) -> ActiveTask:
        """One version of a task, even of a deleted one, with its value lists resolved.

        `UnknownTask` if there never was such a version.
        """
        return self.read_versions([(task_id, version)])[0]

    def read_versions(self, wanted: Collection[tuple[int, int]]) -> _ActiveTasks:
        """The same of several versions (task id, version), in order; a few queries, however many they are."""
        with self._engine.connect() as connection:
            return versions.of_keys(connection, wanted)

    def topics(self) -> Sequence[str]:
        """The topics that have an enabled task, by name."""
        query = sa.select(_tasks.c.topic).distinct().where(_tasks.c.deleted_at.is_(None), _tasks.c.enabled)
        with self._engine.connect() as connection:
            return sorted(connection.execute(query).scalars())

    def _apply(self, connection: sa.Connection, spec: TaskSpec, pins: versions.Pins, user: str) -> Change:
        task = _find(connection, spec.name)
        if task is None:
            insert = sa.insert(_tasks).values(name=spec.name, topic=spec.topic, version=1, enabled=True)
            task_id = connection.execute(insert.returning(_tasks.c.id)).scalar_one()
            versions.add_version(connection, (task_id, 1), spec, pins, user)
            versions.record(connection, (task_id, 1), ChangeAction.CREATED, user, specs=(None, spec))
            return Change(spec.name, ChangeAction.CREATED, task_id, 1, TaskState.ACTIVE)
        if task.spec == spec:
            return Change(spec.name, ChangeAction.UNCHANGED, task.task_id, task.version, task.state)
        why = ", ".join(changed_fields(task.spec, spec))
        if spec.counts_as(task.spec):
            versions.rewrite(connection, task, spec, by=user, why=why)
            return Change(spec.name, ChangeAction.CHANGED, task.task_id, task.version, task.state)
        version = versions.advance(connection, task, spec, pins, by=user, why=why)
        return Change(spec.name, ChangeAction.CHANGED, task.task_id, version, versions.state(task.enabled))


def _find(connection: sa.Connection, name: str) -> Task | None:
    row = connection.execute(versions.current().where(_tasks.c.name == name)).one_or_none()
    return None if row is None else versions.as_task(row)


def _update(connection: sa.Connection, task: Task, **values: object) -> None:
    connection.execute(sa.update(_tasks).where(_tasks.c.id == task.task_id).values(**values))


def _check(connection: sa.Connection, specs: Sequence[TaskSpec]) -> _Pins:
    """The versions of the value lists that each spec names. Raises `TasksRefused`."""
    problems: list[Problem] = []
    pins = []
    for number, spec in enumerate(specs):
        own, found = _checked(connection, spec)
        pins.append(own)
        problems += [Problem(f"/{number}{problem.pointer}", problem.message) for problem in found]
    if problems:
        raise TasksRefused(problems)
    return pins


def _checked(connection: sa.Connection, spec: TaskSpec) -> tuple[versions.Pins, list[Problem]]:
    """The versions of the value lists that a spec names, and the spec's problems."""
    pins, missing = pins_of(connection, spec)
    fits = check_task(spec, topic_spec(connection, spec.topic))
    return pins, [*missing, *fits, *unstorable(spec.document())]


def _grouping(spec: TaskSpec) -> object:
    """The grouping as the version's document has it."""
    return None if spec.grouping is None else spec.grouping.document()


__all__ = ["Change", "Diff", "HistoryEntry", "Task", "TaskChanged", "TaskStore", "UnknownTask"]
