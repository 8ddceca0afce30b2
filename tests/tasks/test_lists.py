"""Value lists: a change of a list changes the tasks that use it."""

from __future__ import annotations

from functools import partial

import pytest

from sluice.tasks import TaskSpec, TasksRefused
from sluice.tasks.lists import ListInUse, UnknownList, ValueLists
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec


def using(task: str, *lists: str) -> TaskSpec:
    where = [
        {"extract": {"delimiter": " ", "index": 8}, "filter": {"mode": "white", "set": each}}
        for each in lists
    ]
    return spec(name=task, topic=task, where=where, metrics=["count"])


def values(tasks: TaskStore, topic: str) -> list[tuple[int, tuple[str, ...] | None]]:
    return [(t.version, t.spec.where[0].filter.values) for t in tasks.active(topic)]


def test_a_list_is_made_changed_and_left_alone(lists: ValueLists, unique: str) -> None:
    assert lists.apply(unique, ["200", "304", "200"], "ann").action == "created"
    assert lists.apply(unique, ["304", "200"], "ann").action == "unchanged"  # the order means nothing
    changed = lists.apply(unique, ["200"], "bob")
    assert (changed.action, changed.version) == ("changed", 2)
    found = lists.get(unique)
    assert (found.version, found.values, found.created_by, found.tasks) == (2, ("200",), "bob", ())
    assert unique in [each.name for each in lists.list()]


def test_the_tasks_that_use_a_list_get_a_new_version_with_it(
    lists: ValueLists, tasks: TaskStore, unique: str
) -> None:
    lists.apply(unique, ["200"], "ann")
    (made,) = tasks.apply([using(unique, unique)], "ann")
    assert values(tasks, unique) == [(1, ("200",))]
    changed = lists.apply(unique, ["200", "206"], "bob")
    assert [(c.name, c.action, c.version) for c in changed.tasks] == [(unique, "changed", 2)]
    assert values(tasks, unique) == [(2, ("200", "206"))]
    task = tasks.get(unique)
    assert (task.spec, task.sets) == (using(unique, unique), {unique: 2})  # what the user wrote stays
    assert tasks.version(made.task_id, 1).spec.where[0].filter.values == ("200",)  # the past stays too
    last = tasks.history(unique)[-1]
    assert (last.action, last.by, last.detail) == ("changed", "bob", f"list {unique} version 2")


def test_lists_that_change_together_make_one_version(
    lists: ValueLists, tasks: TaskStore, unique: str
) -> None:
    one, two = f"{unique}a", f"{unique}b"
    lists.apply_all({one: ["200"], two: ["304"]}, "ann")
    tasks.apply([using(unique, one, two)], "ann")
    lists.apply_all({one: ["201"], two: ["305"]}, "ann")
    assert tasks.get(unique).version == 2
    assert tasks.get(unique).sets == {one: 2, two: 2}


def test_a_paused_task_gets_the_new_list_too(lists: ValueLists, tasks: TaskStore, unique: str) -> None:
    lists.apply(unique, ["200"], "ann")
    tasks.apply([using(unique, unique)], "ann")
    tasks.pause(unique, "ann")
    lists.apply(unique, ["201"], "ann")
    assert tasks.active(unique) == []
    tasks.resume(unique, "ann")
    assert values(tasks, unique) == [(2, ("201",))]


def test_a_list_in_use_cannot_be_deleted(lists: ValueLists, tasks: TaskStore, unique: str) -> None:
    lists.apply(unique, ["200"], "ann")
    (made,) = tasks.apply([using(unique, unique)], "ann")
    with pytest.raises(ListInUse, match=f"used by {unique}"):
        lists.delete(unique, "ann")
    tasks.delete(unique, "ann")
    lists.delete(unique, "ann")
    for call in (lists.get, partial(lists.delete, user="ann")):
        with pytest.raises(UnknownList, match=f"no list '{unique}'"):
            call(unique)
    assert tasks.version(made.task_id, 1).spec.where[0].filter.values == ("200",)
    again = lists.apply(unique, ["404"], "ann")
    assert (again.action, again.version) == ("created", 2)


def test_a_task_that_names_an_unknown_list_is_refused(tasks: TaskStore, unique: str) -> None:
    with pytest.raises(TasksRefused) as refused:
        tasks.apply([using(unique, unique)], "ann")
    (problem,) = refused.value.problems
    assert problem.pointer == "/0/where/0/filter/set"
    assert "make it with `sluice lists apply` first" in problem.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "with at least one"),
        ("200", "a list of values is expected"),
        ([200], "put it in quotes"),
        (["a\0b"], "NUL"),
        ([str(n) for n in range(10_001)], "10001 values, 10000 are allowed"),
    ],
)
def test_what_is_no_list_of_values(lists: ValueLists, unique: str, given: list[str], said: str) -> None:
    with pytest.raises(TasksRefused, match=said):
        lists.apply_all({f"{unique}x": ["fine"], unique: given}, "ann")
    assert unique not in [each.name for each in lists.list()]
    assert f"{unique}x" not in [each.name for each in lists.list()]


def test_an_invalid_name(lists: ValueLists) -> None:
    with pytest.raises(TasksRefused, match="/EU~1x: 'EU/x' is no name"):
        lists.apply("EU/x", ["a"], "ann")
