"""A new instance has the first tasks, an old one its user's; another release's database stops the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.cli import instance
from sluice.runtime.settings import Settings
from sluice.stack import bringup, releases, supervisord
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


@pytest.mark.parametrize("ran", [False, True])
def test_a_refused_database_stops_what_was_started_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, ran: bool
) -> None:
    def refuse(*given: object) -> None:
        raise postgres.SchemaRefused("too old")

    stopped: list[str] = []
    monkeypatch.setattr(bringup, "up", refuse)
    monkeypatch.setattr(supervisord, "running", lambda settings: ran)
    monkeypatch.setattr(releases, "require_own", lambda settings: None)
    monkeypatch.setattr(instance, "down", lambda settings, say: stopped.append(settings.instance))
    with pytest.raises(postgres.SchemaRefused):
        instance.up(Settings(instance="test"), print)
    assert stopped == ([] if ran else ["test"])


def test_what_another_release_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[object] = []
    monkeypatch.setattr(bringup, "up", lambda *given: begun.append(given))
    monkeypatch.setattr(supervisord, "running", lambda settings: True)
    with pytest.raises(releases.OtherReleaseRuns, match="Nothing was changed"):
        instance.up(Settings(instance="test", home=tmp_path), print)
    assert begun == []
