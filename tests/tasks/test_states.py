"""Pausing, resuming and setting aside tasks, and what history and diff say about it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sluice.storage.tables import alerts, schema
from sluice.tasks import TaskSpec, TasksRefused
from sluice.tasks.store import TaskStore
from sluice.tasks.versions import ALERTS, TaskChanged, UnknownTask
from tests.engine.samples import BYTES, spec


def counts(name: str, **changes: Any) -> TaskSpec:
    return spec(**{"name": name, "topic": name, "metrics": ["count"], **changes})


def labels(tasks: TaskStore, topic: str) -> list[str]:
    return [task.label for task in tasks.active(topic)]


def test_a_paused_task_is_not_counted_until_it_is_resumed_in_the_same_version(
    tasks: TaskStore, unique: str
) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    label = f"{made.task_id}v1"
    assert (labels(tasks, unique), tasks.get(unique).state) == ([label], "active")
    assert tasks.pause(unique, "bob").state == "paused"
    assert (labels(tasks, unique), tasks.get(unique).state) == ([], "paused")
    assert tasks.resume(unique, "cid").state == "active"
    assert labels(tasks, unique) == [label]
    assert [(h.action, h.by, h.version) for h in tasks.history(unique)] == [
        ("created", "ann", 1),
        ("paused", "bob", 1),
        ("resumed", "cid", 1),
    ]


def test_a_change_to_the_same_state_is_no_event(tasks: TaskStore, unique: str) -> None:
    tasks.apply([counts(unique)], "ann")
    tasks.resume(unique, "ann")
    tasks.pause(unique, "ann")
    tasks.pause(unique, "ann")
    assert [h.action for h in tasks.history(unique)] == ["created", "paused"]


def test_a_changed_task_stays_paused(tasks: TaskStore, unique: str) -> None:
    tasks.apply([counts(unique)], "ann")
    tasks.pause(unique, "ann")
    (change,) = tasks.apply([counts(unique, period="1h")], "ann")
    assert (tasks.get(unique).state, tasks.get(unique).version, change.state) == ("paused", 2, "paused")


def test_a_task_that_failed_and_was_then_paused_stays_paused_when_it_is_fixed(
    tasks: TaskStore, unique: str
) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    tasks.set_aside(made.task_id, 1, "boom")
    paused = tasks.pause(unique, "ann")
    assert (paused.state, paused.error) == ("paused", "boom")
    (change,) = tasks.apply([counts(unique, period="1h")], "ann")
    assert (change.state, tasks.get(unique).state, tasks.get(unique).error) == ("paused", "paused", None)


def test_a_task_that_is_set_aside_has_an_alert_until_it_counts_again(tasks: TaskStore, unique: str) -> None:
    def told() -> list[str]:
        found = alerts.open_alerts(tasks._engine, ALERTS)
        return [each.message for each in found if unique in each.message]

    (made,) = tasks.apply([counts(unique)], "ann")
    tasks.set_aside(made.task_id, 1, "boom")
    assert told() == [
        f"task {unique} ({made.task_id}v1) is set aside and counts nothing: boom. All other tasks go on"
    ]
    tasks.resume(unique, "ann")
    assert told() == []
    tasks.set_aside(made.task_id, 1, "boom")
    tasks.apply([counts(unique, period="5m")], "ann")
    assert told() == []
    tasks.set_aside(made.task_id, 2, "boom")
    tasks.delete(unique, "ann")
    assert told() == []


def test_a_task_that_is_mended_can_begin_anew_and_be_filled_with_all_lines(
    tasks: TaskStore, unique: str
) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    tasks.set_aside(made.task_id, 1, "boom")
    resumed = tasks.resume(unique, "bob", anew=True)
    assert (resumed.state, resumed.error, resumed.version) == ("active", None, 2)
    assert resumed.spec == tasks.version(made.task_id, 1).spec
    assert [(h.action, h.version, h.detail) for h in tasks.history(unique)][2:] == [
        ("resumed", 1, "after: boom"),
        ("changed", 2, "counted anew"),
    ]
    assert tasks.resume(unique, "bob", anew=True).version == 2  # it counts


def test_a_task_that_failed_is_set_aside_with_its_error(tasks: TaskStore, unique: str) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    other = f"{unique}x"
    tasks.apply([counts(other, topic=unique)], "ann")
    assert tasks.set_aside(made.task_id, 1, "ZeroDivisionError: in geometric_mean.py\0")
    assert not tasks.set_aside(made.task_id, 1, "again, from another partition")
    task = tasks.get(unique)
    assert (task.state, task.error) == ("failed", "ZeroDivisionError: in geometric_mean.py\\x00")
    assert [t.spec.name for t in tasks.active(unique)] == [other]
    resumed = tasks.resume(unique, "bob")
    assert (resumed.state, resumed.error, resumed.version) == ("active", None, 1)
    assert len(tasks.active(unique)) == 2
    assert [(h.action, h.by) for h in tasks.history(unique)][1:] == [("failed", "sluice"), ("resumed", "bob")]


def test_a_failure_of_an_old_version_does_not_touch_the_new_one(tasks: TaskStore, unique: str) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    tasks.apply([counts(unique, period="1h")], "ann")
    assert not tasks.set_aside(made.task_id, 1, "too late")
    assert tasks.get(unique).state == "active"


def test_a_change_fixes_what_failed(tasks: TaskStore, unique: str) -> None:
    (made,) = tasks.apply([counts(unique)], "ann")
    tasks.set_aside(made.task_id, 1, "boom")
    assert tasks.apply([counts(unique)], "ann")[0].action == "unchanged"
    assert tasks.get(unique).state == "failed"
    tasks.apply([counts(unique, period="1h")], "ann")
    assert (tasks.get(unique).state, labels(tasks, unique)) == ("active", [f"{made.task_id}v2"])


def test_a_task_whose_metric_was_taken_away_is_set_aside_and_can_still_be_seen_and_deleted(
    tasks: TaskStore, database: sa.Engine, unique: str
) -> None:
    (made,) = tasks.apply([counts(unique, measure=BYTES, metrics=["sum"])], "ann")
    tasks.apply([counts(f"{unique}x", topic=unique)], "ann")
    t = schema.task_versions
    with database.begin() as connection:
        own = sa.select(t.c.spec).where(t.c.task_id == made.task_id)
        document = {**connection.execute(own).scalar_one(), "metrics": ["harmonic_mean"]}
        connection.execute(sa.update(t).where(t.c.task_id == made.task_id).values(spec=document))
    fresh = TaskStore(database)
    assert [task.spec.name for task in fresh.active(unique)] == [f"{unique}x"]
    task = fresh.get(unique)
    assert task.state == "failed"
    assert "harmonic_mean" in str(task.error)
    assert task.spec.metrics == ("harmonic_mean",)
    assert fresh.version(made.task_id, 1).spec.metrics == ("harmonic_mean",)
    assert fresh.delete(unique, "ann").task_id == made.task_id


def test_the_history_outlives_the_task(tasks: TaskStore, unique: str) -> None:
    (old,) = tasks.apply([counts(unique)], "ann")
    tasks.apply([counts(unique, period="1h", measure=BYTES, metrics=["count", "sum"])], "bob")
    tasks.delete(unique, "cid")
    (new,) = tasks.apply([counts(unique)], "dan")
    found = tasks.history(unique)
    assert [(h.task_id, h.version, h.action, h.by) for h in found] == [
        (old.task_id, 1, "created", "ann"),
        (old.task_id, 2, "changed", "bob"),
        (old.task_id, 2, "deleted", "cid"),
        (new.task_id, 1, "created", "dan"),
    ]
    assert found[1].detail == "period, measure, metrics"


def test_an_unknown_task_everywhere(tasks: TaskStore, unique: str) -> None:
    for call in (tasks.history, lambda n: tasks.pause(n, "ann"), lambda n: tasks.resume(n, "ann")):
        with pytest.raises(UnknownTask, match=unique):
            call(unique)


def test_a_diff_shows_what_apply_would_do_and_changes_nothing(tasks: TaskStore, unique: str) -> None:
    same, new = f"{unique}a", f"{unique}b"
    tasks.apply([counts(unique), counts(same)], "ann")
    found = tasks.diff([counts(unique, period="1h"), counts(same), counts(new)])
    assert [(d.name, d.action, d.fields) for d in found] == [
        (unique, "changed", ("period",)),
        (same, "unchanged", ()),
        (new, "created", ()),
    ]
    before = tasks.get(unique).spec.period
    assert f"-  period: {before}\n+  period: 1h" in found[0].text
    assert f"--- {unique} version 1\n+++ {unique} version 2" in found[0].text
    assert found[1].text == ""
    assert f"+- name: {new}" in found[2].text
    assert tasks.get(unique).version == 1
    with pytest.raises(UnknownTask):
        tasks.get(new)


def test_what_does_not_fit_the_topic_is_refused_by_apply_and_diff(tasks: TaskStore, unique: str) -> None:
    wrong = counts(unique, dimensions=[{"name": "d", "extract": {"field": "colour"}}])
    for call in (lambda: tasks.apply([counts(f"{unique}x"), wrong], "ann"), lambda: tasks.diff([wrong])):
        with pytest.raises(TasksRefused) as refused:
            call()
        assert refused.value.problems[0].pointer.endswith("/dimensions/0/extract/field")
        assert "has no field 'colour'" in str(refused.value)
    assert tasks.list(unique) == []


def test_a_task_that_somebody_else_changed_is_not_overwritten(tasks: TaskStore, unique: str) -> None:
    tasks.apply([counts(unique)], "ann", {unique: None})
    with pytest.raises(TaskChanged, match="already, made by ann"):
        tasks.apply([counts(unique, period="1h")], "bob", {unique: None})
    seen = tasks.get(unique).tag
    tasks.pause(unique, "bob")
    assert tasks.get(unique).tag == seen  # a pause changes nothing of what is written
    tasks.apply([counts(unique, grouping="key")], "bob", {unique: seen})
    with pytest.raises(TaskChanged, match="version 1"):
        tasks.apply([counts(unique, period="1h")], "ann", {unique: seen})
    tasks.apply([counts(unique, period="1h")], "ann", {unique: tasks.get(unique).tag})
    newest = tasks.get(unique)
    assert (newest.version, newest.tag != seen) == (2, True)
    tasks.delete(unique, "ann")
    with pytest.raises(TaskChanged, match="deleted meanwhile"):
        tasks.apply([counts(unique)], "bob", {unique: newest.tag})
