from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from sqlalchemy.exc import SQLAlchemyError

import sluice.tasks.store
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.tasks import TasksRefused
from sluice.tasks.store import TaskStore, UnknownTask
from tests.engine.samples import BYTES, spec

pytestmark = pytest.mark.stack


@pytest.fixture
def store(stack: Settings) -> TaskStore:
    return TaskStore(engine(stack))


@pytest.fixture
def topic(store: TaskStore) -> Iterator[str]:
    """A topic that only this test uses; its tasks are deleted afterwards."""
    name = f"store-{uuid.uuid4().hex[:12]}"
    yield name
    for task in store.list(name):
        store.delete(task.name, "test")


@pytest.fixture
def name() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


def test_a_task_is_created_changed_and_left_alone(store: TaskStore, topic: str, name: str) -> None:
    first = spec(name=name, topic=topic)
    (created,) = store.apply([first], "ann")
    assert (created.action, created.version) == ("created", 1)
    (same,) = store.apply([first], "bob")
    assert (same.action, same.task_id, same.version) == ("unchanged", created.task_id, 1)
    second = spec(name=name, topic=topic, measure=BYTES, metrics=["sum"])
    (changed,) = store.apply([second], "bob")
    assert (changed.action, changed.task_id, changed.version) == ("changed", created.task_id, 2)
    task = store.get(name)
    assert (task.spec, task.version, task.created_by, task.enabled) == (second, 2, "bob", True)
    assert store.version(created.task_id, 1).spec == first
    assert [(t.task_id, t.version, t.spec) for t in store.active(topic)] == [(created.task_id, 2, second)]
    assert [t.name for t in store.list(topic)] == [name]
    assert topic in store.topics()


def test_going_back_is_a_new_version_too(store: TaskStore, topic: str, name: str) -> None:
    one, two = spec(name=name, topic=topic), spec(name=name, topic=topic, period="1h")
    assert [store.apply([s], "ann")[0].version for s in (one, two, one)] == [1, 2, 3]


def test_a_deleted_task_is_no_longer_counted_and_its_name_is_free(
    store: TaskStore, topic: str, name: str
) -> None:
    (old,) = store.apply([spec(name=name, topic=topic)], "ann")
    assert store.delete(name, "ann").task_id == old.task_id
    assert store.active(topic) == []
    for action in (store.get, lambda n: store.delete(n, "ann")):
        with pytest.raises(UnknownTask, match=f"there is no task '{name}'"):
            action(name)
    (new,) = store.apply([spec(name=name, topic=topic)], "ann")
    assert (new.action, new.version) == ("created", 1)
    assert new.task_id > old.task_id
    assert store.version(old.task_id, 1).spec.name == name  # its results can still be read


def test_a_version_that_never_was(store: TaskStore) -> None:
    with pytest.raises(UnknownTask, match="task 2147483647 has no version 1"):
        store.version(2147483647, 1)


def test_all_or_nothing(store: TaskStore, topic: str, name: str) -> None:
    good = spec(name=name, topic=topic)
    # PostgreSQL holds no NUL in a text; a filter that names one cannot be stored.
    white = {"mode": "white", "values": ["\x00"]}
    bad = spec(name=f"{name}x", topic=topic, dimensions=[{"name": "d", "extract": BYTES, "filter": white}])
    with pytest.raises(TasksRefused, match=r"/1/dimensions/0/filter/values/0: .* holds a NUL"):
        store.apply([good, bad], "ann")
    assert store.list(topic) == []


def test_a_change_that_fails_half_way_leaves_nothing(
    store: TaskStore, topic: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The second of two tasks with the same name collides in the database, after the first was written.
    monkeypatch.setattr(sluice.tasks.store, "_find", lambda connection, name: None)
    good = spec(name=name, topic=topic)
    with pytest.raises(SQLAlchemyError):
        store.apply([good, good], "ann")
    assert store.list(topic) == []


def test_two_users_who_apply_at_once_make_one_version(store: TaskStore, topic: str, name: str) -> None:
    start = threading.Barrier(4)
    actions: list[str] = []

    def apply() -> None:
        start.wait()
        actions.extend(c.action for c in store.apply([spec(name=name, topic=topic)], "ann"))

    threads = [threading.Thread(target=apply) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(actions) == ["created", "unchanged", "unchanged", "unchanged"]
    assert store.get(name).version == 1
