"""A topic's first line freezes the format of its lines."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.tasks import TasksRefused, TopicSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicInUse, TopicStore
from tests.engine.samples import spec


def json_topic(name: str, **changes: object) -> TopicSpec:
    document = {"name": name, "format": "json", **changes}
    return TopicSpec.model_validate({"time": {"extract": {"field": "at"}, "format": "iso8601"}, **document})


def test_a_topic_that_nobody_described_is_an_access_log(topics: TopicStore, unique: str) -> None:
    assert topics.get(unique) == TopicSpec(name=unique)


def test_a_topic_is_described_and_changed_while_it_is_empty(topics: TopicStore, unique: str) -> None:
    assert topics.apply(json_topic(unique), "ann") == "created"
    assert topics.apply(json_topic(unique), "ann") == "unchanged"
    other = json_topic(unique, time={"extract": {"field": "when"}, "format": "epoch_ms"})
    assert topics.apply(other, "bob") == "changed"
    assert topics.get(unique) == other
    (found,) = [each for each in topics.list() if each.spec.name == unique]
    assert (found.spec, found.created_by, found.tasks) == (other, "bob", 0)


def test_once_its_lines_are_read_its_format_stays(topics: TopicStore, unique: str) -> None:
    other = json_topic(unique)
    topics.apply(other, "ann")
    assert topics.freeze(unique) == topics.freeze(unique) == other
    with pytest.raises(TopicInUse, match=f"sluice topics replay {unique} --into"):
        topics.apply(TopicSpec(name=unique), "ann")
    assert topics.apply(json_topic(unique, grouping="key"), "ann") == "changed"  # its lines are read the same


def test_nobody_waits_for_a_lock_to_read_what_is_fixed(
    topics: TopicStore, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that stands still with the lock, as a host does that hangs, keeps no other reader waiting."""
    frozen = topics.freeze(unique)
    taken = []
    monkeypatch.setattr("sluice.storage.tables.locks.take", lambda *lock: taken.append(lock))
    assert topics.freeze(unique) == frozen
    assert taken == []


def test_a_topic_that_nobody_described_is_frozen_too(topics: TopicStore, unique: str) -> None:
    assert topics.freeze(unique) == TopicSpec(name=unique)
    assert unique not in [each.spec.name for each in topics.list()]
    with pytest.raises(TopicInUse):
        topics.apply(json_topic(unique), "ann")
    assert topics.apply(TopicSpec(name=unique), "ann") == "created"  # as it is read already
    assert topics.apply(TopicSpec(name=unique), "ann") == "unchanged"


@pytest.mark.stack
def test_of_a_description_and_a_reader_at_once_one_is_first(stack: Settings, unique: str) -> None:
    topics, start = TopicStore(engine(stack)), threading.Barrier(2)

    def describe() -> str:
        start.wait()
        try:
            return topics.apply(json_topic(unique), "ann")
        except TopicInUse:
            return "refused"

    with ThreadPoolExecutor() as pool:
        described = pool.submit(describe)
        start.wait()
        read_as = topics.freeze(unique)
    assert topics.get(unique) == read_as
    assert (read_as.format, described.result()) in [("json", "created"), ("combined", "refused")]


def test_what_cannot_be_stored_is_refused_by_its_place(topics: TopicStore, unique: str) -> None:
    time = {"extract": {"delimiter": "\0", "index": 0}, "format": "epoch_s"}
    with pytest.raises(TasksRefused, match=r"/time/extract/delimiter: .* holds a NUL"):
        topics.apply(json_topic(unique, time=time), "ann")


def test_tasks_that_would_not_fit_are_named(topics: TopicStore, tasks: TaskStore, unique: str) -> None:
    dimension = {"name": "d", "extract": {"field": "status"}}
    tasks.apply([spec(name=unique, topic=unique, dimensions=[dimension], metrics=["count"])], "ann")
    columns = TopicSpec.model_validate(
        {
            "name": unique,
            "format": "delimited",
            "delimiter": ";",
            "columns": ["at", "code"],
            "time": {"extract": {"field": "at"}, "format": "epoch_s"},
        }
    )
    with pytest.raises(TasksRefused, match=f"^/: task '{unique}' does not fit"):
        topics.apply(columns, "ann")
    with pytest.raises(TasksRefused, match=f"^/1: task '{unique}' does not fit"):
        topics.apply_all([json_topic(f"{unique}x"), columns], "ann")
    assert topics.get(unique) == TopicSpec(name=unique)


def test_a_task_is_checked_against_its_topic(topics: TopicStore, tasks: TaskStore, unique: str) -> None:
    topics.apply(json_topic(unique), "ann")
    dimension = {"name": "d", "extract": {"field": "request.path"}}
    tasks.apply([spec(name=unique, topic=unique, dimensions=[dimension], metrics=["count"])], "ann")
    assert [each.tasks for each in topics.list() if each.spec.name == unique] == [1]


def test_topics_that_a_task_reads_are_counted_and_archived(
    topics: TopicStore, tasks: TaskStore, unique: str
) -> None:
    assert "logs" in topics.names()
    topics.apply(json_topic(f"{unique}_described"), "ann")
    tasks.apply([spec(name=unique, topic=unique, metrics=["count"])], "ann")
    tasks.pause(unique, "ann")  # it may be resumed: its lines are still archived
    assert {unique, f"{unique}_described"} & set(topics.names()) == {unique}
    tasks.delete(unique, "ann")
    assert unique not in topics.names()
