"""The stores of tasks, lists and topics, in memory and (with the stack) in PostgreSQL."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.tasks.lists import ValueLists
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore
from tests.tasks.database import sqlite


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.stack)])
def database(request: pytest.FixtureRequest, unique: str) -> Iterator[sa.Engine]:
    if request.param == "memory":
        yield sqlite()
        return
    database = engine(request.getfixturevalue("stack"))
    yield database
    tasks = schema.tasks.c  # for a task left over, the platform would look for its topic forever
    own = (tasks.name.startswith(unique) | tasks.topic.startswith(unique)) & tasks.deleted_at.is_(None)
    with database.begin() as connection:
        connection.execute(sa.update(schema.tasks).where(own).values(deleted_at=sa.func.now()))


@pytest.fixture
def tasks(database: sa.Engine) -> TaskStore:
    return TaskStore(database)


@pytest.fixture
def lists(database: sa.Engine) -> ValueLists:
    return ValueLists(database)


@pytest.fixture
def topics(database: sa.Engine) -> TopicStore:
    return TopicStore(database)


@pytest.fixture
def unique() -> str:
    """A name that no other test has, for tasks, lists and topics."""
    return f"t{uuid.uuid4().hex[:12]}"
