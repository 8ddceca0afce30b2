"""Named lists of values that users keep, for filters: `{mode: white, set: eu_offices}`.

A list's version is pinned in a task's version. A changed list therefore gives every task that uses it a new
version, in the same transaction: results before and after are kept apart, as with any other change.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError

from sluice.storage.tables import history, schema
from sluice.tasks import versions
from sluice.tasks.changes import ChangeAction
from sluice.tasks.document import read_yaml
from sluice.tasks.extract import MAX_VALUES
from sluice.tasks.problem import Problem, TasksRefused
from sluice.tasks.spec import TaskSpec
from sluice.tasks.spec_base import Name
from sluice.tasks.storable import why_not
from sluice.tasks.versions import Change, Pins

_lists = schema.value_lists
_name: TypeAdapter[str] = TypeAdapter(Name)


class UnknownList(LookupError):
    """The requested list does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no list {name!r}: `sluice lists list` shows what there is")


class ListInUse(ValueError):
    """A list that tasks use cannot be deleted."""

    def __init__(self, name: str, tasks: Sequence[str]) -> None:
        self.tasks = tuple(tasks)
        super().__init__(f"list {name!r} is used by {', '.join(tasks)}: change or delete these tasks first")


@dataclass(frozen=True)
class ValueList:
    """A list as it stands."""

    name: str
    version: int
    values: tuple[str, ...]
    created_at: dt.datetime
    created_by: str
    tasks: tuple[str, ...]  # the tasks that use it


@dataclass(frozen=True)
class ListChange:
    """What applying one list did, to itself and to the tasks that use it."""

    name: str
    action: ChangeAction
    version: int
    tasks: tuple[Change, ...] = ()


class ValueLists:
    """Reads and writes lists; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def apply(self, name: str, values: Sequence[str], user: str) -> ListChange:
        """Create the list or, if its values changed, give it and its tasks a new version."""
        return self.apply_all({name: values}, user)[0]

    def apply_all(self, lists: Mapping[str, Sequence[str]], user: str) -> Sequence[ListChange]:
        """Apply all lists or none; a task that uses several changed ones gets one new version.

        `TasksRefused` names what is wrong, with pointers into the mapping.
        """
        checked = check_lists(lists)
        with versions.writing(self._engine) as connection:
            before = _newest(connection)
            changes = [_apply(connection, before.get(each), each, checked[each], user) for each in checked]
            changed = {
                change.name: change.version for change in changes if change.action == ChangeAction.CHANGED
            }
            tasks = _advance(connection, changed, user)
        return [
            ListChange(each.name, each.action, each.version, tuple(tasks.get(each.name, ())))
            for each in changes
        ]

    def list(self) -> list[ValueList]:
        """All lists that are not deleted, by name."""
        with self._engine.connect() as connection:
            using = _users(connection)
            return [
                _value_list(row, using.get(row.name, ()))
                for row in _newest(connection).values()
                if row.deleted_at is None
            ]

    def get(self, name: str) -> ValueList:
        """The list with that name. Raises `UnknownList`."""
        with self._engine.connect() as connection:
            row = _newest(connection).get(name)
            if row is None or row.deleted_at is not None:
                raise UnknownList(name)
            return _value_list(row, _users(connection).get(name, ()))

    def delete(self, name: str, user: str) -> ValueList:
        """Delete the list; its versions stay. Raises `UnknownList`, `ListInUse`."""
        with versions.writing(self._engine) as connection:
            row = _newest(connection).get(name)
            if row is None or row.deleted_at is not None:
                raise UnknownList(name)
            if tasks := _users(connection).get(name):
                raise ListInUse(name, tasks)
            connection.execute(
                sa.update(_lists)
                .where(_lists.c.name == name, _lists.c.version == row.version)
                .values(deleted_at=sa.func.now())
            )
            history.record(
                connection,
                who=user,
                what="list",
                name=name,
                action="deleted",
                before=[*row._mapping["values"]],
            )
            return _value_list(row, ())


def _apply(
    connection: sa.Connection, row: sa.Row[Any] | None, name: str, values: tuple[str, ...], user: str
) -> ListChange:
    """`row`: the list's newest version, if it ever had one."""
    there = row is not None and row.deleted_at is None
    if row is not None and there and set(row._mapping["values"]) == set(values):
        return ListChange(name, ChangeAction.UNCHANGED, row.version)
    version = row.version + 1 if row is not None else 1
    new = {"name": name, "version": version, "values": [*values], "created_by": user}
    connection.execute(sa.insert(_lists).values(new))
    before = [*row._mapping["values"]] if row is not None and there else ""
    action = ChangeAction.CHANGED if there else ChangeAction.CREATED
    history.record(
        connection, who=user, what="list", name=name, action=action, before=before, after=[*values]
    )
    return ListChange(name, action, version)


def parse_lists(text: str) -> dict[str, tuple[str, ...]]:
    """The lists of a YAML mapping from names to values; `TasksRefused` names all that is wrong."""
    document = read_yaml(text)
    if not isinstance(document, dict) or not document:
        raise TasksRefused([Problem("", "names and their values are expected, e.g. eu_offices: [ams, ber]")])
    return check_lists(document)


def check_lists(lists: Mapping[str, object]) -> dict[str, tuple[str, ...]]:
    """Names and values as stored, each value once; `TasksRefused` if some cannot be stored."""
    problems: list[Problem] = []
    checked: dict[str, tuple[str, ...]] = {}
    for name, values in lists.items():
        at = "/" + str(name).replace("~", "~0").replace("/", "~1")
        try:
            _name.validate_python(name)
        except ValidationError:
            problems.append(
                Problem(at, f"{name!r} is no name: use a-z, 0-9, _ and -, a letter first, at most 64")
            )
        wrong = _wrong(values)
        if wrong or not isinstance(values, list | tuple):
            problems.append(Problem(at, wrong or "a list of values is expected"))
        else:
            checked[name] = tuple(dict.fromkeys(values))
    if problems:
        raise TasksRefused(problems)
    return checked


def _wrong(values: object) -> str | None:
    if not isinstance(values, list | tuple) or not values:
        return 'a list of values is expected, with at least one: write ["a", "b"]'
    if len(values) > MAX_VALUES:
        return f"{len(values)} values, {MAX_VALUES} are allowed: use a regex, or several lists"
    for value in values:
        if not isinstance(value, str):
            return f'{value!r} is no text: put it in quotes, e.g. "{value}"'
        if reason := why_not(value):
            return reason
    return None


def pins_of(connection: sa.Connection, spec: TaskSpec) -> tuple[Pins, list[Problem]]:
    """The newest versions of the lists that a task names, and a problem for each missing one."""
    if not spec.sets:
        return {}, []
    newest = _newest(connection)
    there = {name: row.version for name, row in newest.items() if row.deleted_at is None}
    places = [
        *((f"/where/{n}/filter/set", c.filter) for n, c in enumerate(spec.where)),
        *((f"/dimensions/{n}/filter/set", d.filter) for n, d in enumerate(spec.dimensions)),
    ]
    problems = [
        Problem(
            "/sql" if spec.sql is not None else pointer,
            f"there is no list {filter_.set!r}: make it with `sluice lists apply` first",
        )
        for pointer, filter_ in places
        if filter_ is not None and filter_.set is not None and filter_.set not in there
    ]
    return {name: there[name] for name in sorted(spec.sets) if name in there}, problems


def _newest(connection: sa.Connection) -> dict[str, sa.Row[Any]]:
    """The newest version of each list, including deleted ones, by name."""
    last = sa.select(_lists.c.name, sa.func.max(_lists.c.version).label("version")).group_by(_lists.c.name)
    newest = last.subquery()
    query = sa.select(_lists).join(
        newest, (_lists.c.name == newest.c.name) & (_lists.c.version == newest.c.version)
    )
    return {row.name: row for row in connection.execute(query.order_by(_lists.c.name))}


def _users(connection: sa.Connection) -> dict[str, list[str]]:
    """The names of the tasks that use each list."""
    using: dict[str, list[str]] = {}
    for row in connection.execute(versions.current().order_by(schema.tasks.c.name)):
        for name in row.sets:
            using.setdefault(name, []).append(row.name)
    return using


def _advance(connection: sa.Connection, changed: Pins, user: str) -> dict[str, list[Change]]:
    """Give each task that uses a changed list its next version; returns the changes by list."""
    made: dict[str, list[Change]] = {}
    if not changed:
        return made
    for row in connection.execute(versions.current().order_by(schema.tasks.c.id)).all():
        task = versions.as_task(row)
        own = {name: version for name, version in changed.items() if name in task.sets}
        if not own:
            continue
        why = ", ".join(f"list {name} version {version}" for name, version in own.items())
        version = versions.advance(connection, task, task.spec, {**task.sets, **own}, by=user, why=why)
        for name in own:
            state = versions.state(task.enabled)
            made.setdefault(name, []).append(
                Change(task.name, ChangeAction.CHANGED, task.task_id, version, state)
            )
    return made


def _value_list(row: sa.Row[Any], tasks: Sequence[str]) -> ValueList:
    values = tuple(row._mapping["values"])
    return ValueList(row.name, row.version, values, row.created_at, row.created_by, tuple(tasks))
