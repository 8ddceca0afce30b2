"""A new instance has the tasks of include/tasks.yaml; an old one has what its user left."""

from __future__ import annotations

import pytest

from sluice.cli import instance
from sluice.runtime.settings import Settings
from sluice.storage import postgres
from sluice.tasks.store import TaskStore
from tests.tasks.database import sqlite


def test_tasks_that_the_user_deleted_do_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    database = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    store = TaskStore(database)
    instance.tasks(Settings(instance="test"))
    given = store.list()
    assert given
    for task in given:
        store.delete(task.name, "ann")
    instance.tasks(Settings(instance="test"))
    assert store.list() == []
