"""What a topic's lines look like is settled by its first line."""

from __future__ import annotations

import datetime as dt

import pytest
import sqlalchemy as sa

from sluice.storage import schema
from sluice.tasks import TasksRefused, TopicSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicInUse, TopicStore
from tests.statistics.engine_samples import spec


def json_topic(name: str, **changes: object) -> TopicSpec:
    document = {"name": name, "format": "json", **changes}
    return TopicSpec.model_validate({"time": {"extract": {"field": "at"}, "format": "iso8601"}, **document})


def archived(database: sa.Engine, topic: str) -> None:
    """A line of the topic is in the archive."""
    numbers = dict.fromkeys(
        ("partition", "first", "next", "records", "bytes", "arrival_min", "arrival_max", "unparsed"), 1
    )
    row = {"topic": topic, "topic_id": "x", "days": {}, "generation": 1, "path": "p", **numbers}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_files).values(row))


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


def test_once_it_has_lines_its_format_stays(topics: TopicStore, database: sa.Engine, unique: str) -> None:
    archived(database, unique)
    with pytest.raises(TopicInUse, match="make a new topic"):
        topics.apply(json_topic(unique), "ann")
    assert topics.apply(TopicSpec(name=unique), "ann") == "created"  # what it was read as
    assert topics.apply(TopicSpec(name=unique), "ann") == "unchanged"


def committed(database: sa.Engine, topic: str, seq: int, end: int) -> None:
    """A commit of the speed layer that ends there."""
    nothing = {"tasks": [], "counts": {}, "blocks": [], "committed_at": dt.datetime.now(dt.UTC)}
    row = {"topic": topic, "seq": seq, "token": "t", "start": {"0": 0}, "end": {"0": end}, **nothing}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(row))


def test_a_commit_without_lines_settles_nothing(topics: TopicStore, database: sa.Engine, unique: str) -> None:
    committed(database, unique, 1, 0)  # that took up a task before any line came
    assert topics.apply(json_topic(unique), "ann") == "created"
    committed(database, unique, 2, 1)
    with pytest.raises(TopicInUse, match="make a new topic"):
        topics.apply(TopicSpec(name=unique), "ann")


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
    with pytest.raises(TasksRefused, match=f"task '{unique}' does not fit"):
        topics.apply(columns, "ann")
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
    tasks.pause(unique, "ann")  # it may be resumed: its lines are archived all the same
    assert {unique, f"{unique}_described"} & set(topics.names()) == {unique}
    tasks.delete(unique, "ann")
    assert unique not in topics.names()
