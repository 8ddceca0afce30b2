"""Entries of the history: one for each change, by whoever made it, and for good."""

from __future__ import annotations

import datetime as dt
import uuid

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import history
from sluice.storage.tables.dashboards import Dashboards, PinnedChart
from sluice.storage.tables.history import HistoryRecord
from sluice.tasks.lists import ValueLists
from sluice.tasks.spec import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from sluice.tasks.topics import TopicStore
from tests.tasks.database import sqlite

HITS = {"name": "hits", "topic": "logs", "period": "1m", "metrics": ["count"]}


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def said(database: sa.Engine) -> list[tuple[str, str, str, str]]:
    """Who did what to what, the oldest first."""
    found = reversed(history.entries(database))
    return [(each.who, each.what, each.name, each.action) for each in found]


def newest(database: sa.Engine) -> HistoryRecord:
    return history.entries(database, limit=1)[0]


def test_each_change_of_a_task_is_an_entry_in_its_own_transaction(database: sa.Engine) -> None:
    tasks = TaskStore(database)
    tasks.apply([TaskSpec.model_validate(HITS)], "ann")
    tasks.apply([TaskSpec.model_validate(HITS)], "ann")  # changes nothing
    tasks.apply([TaskSpec.model_validate({**HITS, "period": "5m"})], "bob")
    assert (newest(database).before, newest(database).after) == ('{"period": "1m"}', '{"period": "5m"}')
    tasks.pause("hits", "ann")
    tasks.resume("hits", "ann")
    tasks.delete("hits", "eve")
    with pytest.raises(LookupError):
        tasks.pause("hits", "ann")
    assert said(database) == [
        ("ann", "task", "hits", "created"),
        ("bob", "task", "hits", "changed"),
        ("ann", "task", "hits", "paused"),
        ("ann", "task", "hits", "resumed"),
        ("eve", "task", "hits", "deleted"),
    ]


def test_lists_topics_and_dashboards_have_entries(database: sa.Engine) -> None:
    lists, boards = ValueLists(database), Dashboards(database)
    lists.apply("good", ["a"], "ann")
    lists.apply("good", ["a", "b"], "bob")
    assert (newest(database).before, newest(database).after) == ('["a"]', '["a", "b"]')
    lists.delete("good", "ann")
    topics = TopicStore(database)
    spec = TopicSpec.model_validate(
        {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
    )
    topics.apply(spec, "ann")
    made = boards.create("ann", "mine", [PinnedChart("t", "task=hits")])
    boards.change(made.id, "ann", 1, name="ours", shared=True, charts=[])
    boards.delete(made.id, "ann", 2)
    number = str(made.id)
    assert said(database) == [
        ("ann", "list", "good", "created"),
        ("bob", "list", "good", "changed"),
        ("ann", "list", "good", "deleted"),
        ("ann", "topic", "shop", "created"),
        ("ann", "dashboard", number, "created"),
        ("ann", "dashboard", number, "changed"),
        ("ann", "dashboard", number, "deleted"),
    ]


def test_entries_are_found_by_user_kind_time_and_page(database: sa.Engine) -> None:
    lists = ValueLists(database)
    for number in range(5):
        lists.apply(f"list{number}", ["a"], "ann" if number % 2 else "bob")
    assert [each.name for each in history.entries(database, who="ann")] == ["list3", "list1"]
    assert history.entries(database, what="task") == []
    assert [each.name for each in history.entries(database, name="list2")] == ["list2"]
    first = history.entries(database, limit=2)
    assert [each.name for each in history.entries(database, before=first[-1].id, limit=2)] == [
        "list2",
        "list1",
    ]
    later = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    assert history.entries(database, since=later) == []


def test_a_long_value_is_shortened_and_a_nul_is_no_harm() -> None:
    assert len(history.short("x" * 10_000)) == history.SHORT
    assert history.short("a\0b") == "a\\x00b"


@pytest.mark.stack
def test_postgresql_refuses_to_change_an_entry_or_to_delete_a_young_one(stack: Settings) -> None:
    database, name = engine(stack), f"l{uuid.uuid4().hex[:12]}"
    ValueLists(database).apply(name, ["a"], "ann")
    ValueLists(database).delete(name, "ann")
    for statement in (
        f"UPDATE history SET who = 'bob' WHERE name = '{name}'",
        f"DELETE FROM history WHERE name = '{name}'",
        "TRUNCATE history",
    ):
        with pytest.raises(DBAPIError, match="the history only grows"), database.begin() as connection:
            connection.execute(sa.text(statement))
    assert len(history.entries(database, name=name)) == 2
    old = dt.datetime.now(dt.UTC) - dt.timedelta(days=history.KEPT_DAYS + 1)
    with database.begin() as connection:
        entry = {"at": old, "who": "ann", "origin": "x", "what": "x", "name": name, "action": "x"}
        history.take_in(connection, [{**entry, "before": "", "after": "", "token": name}])
        history.take_in(connection, [{**entry, "before": "", "after": "", "token": name}])
    assert len(history.entries(database, name=name)) == 3
    assert history.drop(database, old + dt.timedelta(hours=1)) >= 1
    assert len(history.entries(database, name=name)) == 2
