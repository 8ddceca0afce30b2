"""Tasks and versions as rows of PostgreSQL, shared by the stores of tasks and value lists.

A change never edits a version: it adds one. Which values a filter's list had is part of the version (`sets`),
so a version means the same for ever. Only its description, how its lines are grouped and how it is written
may change, because no result depends on them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from sluice.runtime.nearest import nearest
from sluice.storage.tables import alerts, history, locks, schema
from sluice.tasks.changes import ChangeAction
from sluice.tasks.spec import ActiveTask, Measure, TaskSpec

#: The history names this user when the platform itself sets a task aside.
PLATFORM = "sluice"
#: The source of the alerts: one for each task that is set aside.
ALERTS = "tasks"

Pins = Mapping[str, int]  # value list: version
Key = tuple[int, int]  # task id and version
#: Versions that one statement asks for.
KEYS_A_STATEMENT = 1_000

_tasks, _versions, _lists = schema.tasks, schema.task_versions, schema.value_lists


class TaskState(StrEnum):
    """Whether lines are counted for a task."""

    ACTIVE = "active"  # they are
    PAUSED = "paused"  # a user paused it
    FAILED = "failed"  # the platform set it aside, because a batch failed on it


class UnknownTask(LookupError):
    """There is no such task, or no such version of it."""


class TaskChanged(ValueError):
    """Somebody else changed the task since the caller read it; `task` is how it stands, None if it is gone.

    new: the caller expected no such task.
    """

    def __init__(self, name: str, task: Task | None, *, new: bool = False) -> None:
        self.task = task
        if task is None:
            said = f"task {name!r} was deleted meanwhile: save it as a new task, or leave it"
        elif new:
            said = f"there is a task {name!r} already, made by {task.created_by}: choose another name"
        else:
            said = (
                f"task {name!r} is no longer what it was when you began: {task.created_by} made its version "
                f"{task.version} at {task.created_at:%Y-%m-%d %H:%M:%S}; look at it, then save again"
            )
        super().__init__(said)


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
    sets: Pins
    failed_at: dt.datetime | None = None
    error: str | None = None

    @property
    def state(self) -> TaskState:
        return state(self.enabled, self.failed_at)

    @property
    def key(self) -> Key:
        return self.task_id, self.version

    @property
    def label(self) -> str:
        """The task's part of every key: id and version."""
        return f"{self.task_id}v{self.version}"

    @property
    def tag(self) -> str:
        """Names this task as it is written; another version, or another grouping of it, has another tag."""
        written = json.dumps([self.label, self.spec.document()], sort_keys=True).encode()
        return hashlib.blake2b(written, digest_size=12).hexdigest()


def state(enabled: bool, failed_at: dt.datetime | None = None) -> TaskState:
    """The state of a task.

    A task that failed and is paused is paused, because a new version of it would not be counted either.
    """
    if not enabled:
        return TaskState.PAUSED
    return TaskState.ACTIVE if failed_at is None else TaskState.FAILED


@dataclass(frozen=True)
class Change:
    """What applying one spec did; `state` is the task's state afterwards."""

    name: str
    action: ChangeAction
    task_id: int
    version: int
    state: TaskState


@dataclass(frozen=True)
class HistoryEntry:
    """One thing that happened to a task."""

    task_id: int
    version: int
    action: str  # created, changed, paused, resumed, deleted, failed, backfilled
    at: dt.datetime
    by: str
    detail: str


@contextlib.contextmanager
def writing(engine: sa.Engine) -> Iterator[sa.Connection]:
    """A transaction that changes tasks, lists or topics; only one runs at a time.

    So two that apply the same file at once create one version, not two.
    """
    with engine.begin() as connection:
        locks.take(connection, locks.Lock.TASKS)
        yield connection


def current() -> sa.Select[Any]:
    """The newest version of every task that is not deleted."""
    joined = (_versions.c.task_id == _tasks.c.id) & (_versions.c.version == _tasks.c.version)
    return (
        sa.select(
            _tasks.c.id,
            _tasks.c.name,
            _tasks.c.topic,
            _tasks.c.version,
            _tasks.c.enabled,
            _tasks.c.failed_at,
            _tasks.c.error,
            _versions.c.spec,
            _versions.c.sets,
            _versions.c.created_at,
            _versions.c.created_by,
        )
        .join(_versions, joined)
        .where(_tasks.c.deleted_at.is_(None))
    )


def one(connection: sa.Connection, name: str) -> Task:
    """The task with that name; `UnknownTask` if there is none."""
    row = connection.execute(current().where(_tasks.c.name == name)).one_or_none()
    if row is None:
        names = connection.scalars(sa.select(_tasks.c.name).where(_tasks.c.deleted_at.is_(None)))
        meant = nearest(name, names) or "`sluice tasks list` shows what there is"
        raise UnknownTask(f"there is no task {name!r}: {meant}")
    return as_task(row)


def as_task(row: sa.Row[Any]) -> Task:
    return Task(
        task_id=row.id,
        name=row.name,
        topic=row.topic,
        version=row.version,
        enabled=row.enabled,
        spec=stored_spec(row.spec),
        created_at=row.created_at,
        created_by=row.created_by,
        sets=dict(row.sets),
        failed_at=row.failed_at,
        error=row.error,
    )


def written(engine: sa.Engine, task_id: int, version: int) -> TaskSpec:
    """A version of a task as it was written, with the names of its value lists. Raises `UnknownTask`."""
    query = sa.select(_versions.c.spec).where(_versions.c.task_id == task_id, _versions.c.version == version)
    with engine.connect() as connection:
        document = connection.execute(query).scalar_one_or_none()
    if document is None:
        raise UnknownTask(f"task {task_id} has no version {version}")
    return stored_spec(document)


def stored_spec(document: Mapping[str, Any]) -> TaskSpec:
    """A spec as it was stored, even one whose metrics no longer exist.

    A team may remove a metric's file, but users must still be able to list, change and delete its tasks.
    """
    try:
        return TaskSpec.model_validate(document)
    except ValidationError:
        bare = {**document, "metrics": ["count"], "measure": None}
        measure = document.get("measure")
        whole = {
            "metrics": tuple(document["metrics"]),
            "measure": None if measure is None else Measure.model_validate(measure),
        }
        return TaskSpec.model_validate(bare).model_copy(update=whole)


def add_version(connection: sa.Connection, key: Key, spec: TaskSpec, pins: Pins, user: str) -> None:
    connection.execute(
        sa.insert(_versions).values(
            task_id=key[0],
            version=key[1],
            spec=spec.model_dump(mode="json", exclude_none=True),
            sets=dict(pins),
            created_by=user,
        )
    )


def advance(connection: sa.Connection, task: Task, spec: TaskSpec, pins: Pins, *, by: str, why: str) -> int:
    """Give a task its next version and return its number. The old version's failure is cleared."""
    version = task.version + 1
    connection.execute(
        sa.update(_tasks)
        .where(_tasks.c.id == task.task_id)
        .values(topic=spec.topic, version=version, failed_at=None, error=None)
    )
    add_version(connection, (task.task_id, version), spec, pins, by)
    record(connection, (task.task_id, version), ChangeAction.CHANGED, by, why, specs=(task.spec, spec))
    return version


def rewrite(connection: sa.Connection, task: Task, spec: TaskSpec, *, by: str, why: str) -> None:
    """Replace the document of the task's version by a `spec` that counts the same.

    The version's lines are then grouped by another strategy from the next batch on, or it has another
    description, or its SELECT another text with the same meaning. The document keeps it, so that users see
    what they wrote.
    """
    connection.execute(
        sa.update(_versions)
        .where(_versions.c.task_id == task.task_id, _versions.c.version == task.version)
        .values(spec=spec.model_dump(mode="json", exclude_none=True))
    )
    record(connection, task.key, ChangeAction.CHANGED, by, why, specs=(task.spec, spec))


def record(
    connection: sa.Connection,
    key: Key,
    action: str,
    user: str,
    detail: str = "",
    *,
    specs: tuple[TaskSpec | None, TaskSpec] | None = None,
) -> None:
    """Add an entry to the task's history, and one to the platform's; its alert follows.

    specs: the task before and after a change of it.
    """
    connection.execute(
        sa.insert(schema.task_changes).values(
            task_id=key[0], version=key[1], action=action, by=user, detail=detail
        )
    )
    name = connection.execute(sa.select(_tasks.c.name).where(_tasks.c.id == key[0])).scalar_one()
    before, after = _differing(*specs) if specs is not None else ("", detail)
    history.record(connection, who=user, what="task", name=name, action=action, before=before, after=after)
    _tell_failed(connection)


def _tell_failed(connection: sa.Connection) -> None:
    """Bring the alerts in line with the tasks that are set aside."""
    t, told = _tasks.c, {}
    failed = sa.select(t.id, t.name, t.version, t.error).where(t.failed_at.is_not(None))
    for row in connection.execute(failed.where(t.deleted_at.is_(None))):
        label = f"{row.id}v{row.version}"
        said = f"task {row.name} ({label}) is set aside and counts nothing: {row.error}"
        told[label] = f"{said}. All other tasks go on"
    alerts.sync_within(connection, ALERTS, told)


def _differing(old: TaskSpec | None, new: TaskSpec) -> tuple[object, object]:
    """The parts of the documents that differ; of a new task all of it."""
    before, after = {} if old is None else old.document(), new.document()
    keys = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    return tuple({key: each[key] for key in keys if key in each} or "" for each in (before, after))  # type: ignore[return-value]


def of_keys(connection: sa.Connection, wanted: Collection[Key]) -> list[ActiveTask]:
    """These versions, in order. Raises UnknownTask."""
    t, keys = _versions.c, sorted(wanted)
    known: dict[Key, tuple[TaskSpec, Pins]] = {}
    for begin in range(0, len(keys), KEYS_A_STATEMENT):
        own = sa.tuple_(t.task_id, t.version).in_(keys[begin : begin + KEYS_A_STATEMENT])
        for row in connection.execute(sa.select(t.task_id, t.version, t.spec, t.sets).where(own)):
            known[row.task_id, row.version] = stored_spec(row.spec), row.sets
    if missing := [key for key in keys if key not in known]:
        task_id, version = missing[0]
        raise UnknownTask(f"task {task_id} has no version {version}: `sluice tasks list` shows what there is")
    return with_lists(connection, ((key, *known[key]) for key in keys))


def with_lists(connection: sa.Connection, rows: Iterable[tuple[Key, TaskSpec, Pins]]) -> list[ActiveTask]:
    """The tasks as the engine takes them, with the values of lists in place.

    `rows`: each task's id and version, its spec, and its pins.
    """
    found = list(rows)
    wanted = sorted({pin for *_, pins in found for pin in pins.items()})
    values: dict[tuple[str, int], tuple[str, ...]] = {}
    if wanted:
        query = sa.select(_lists.c.name, _lists.c.version, _lists.c["values"]).where(
            sa.tuple_(_lists.c.name, _lists.c.version).in_(wanted)
        )
        values = {(row.name, row.version): tuple(row[2]) for row in connection.execute(query)}
    return [
        ActiveTask(*key, spec.with_sets({name: values[name, n] for name, n in pins.items()}))
        for key, spec, pins in found
    ]
