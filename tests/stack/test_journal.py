"""Changes that happen while PostgreSQL is away are kept, and come into the history once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack import journal
from sluice.storage.tables import history
from tests.tasks.database import sqlite


def away() -> sa.Engine:
    """A database that does not answer."""
    return sa.create_engine("postgresql+psycopg2://x@127.0.0.1:1/x")


def test_a_change_waits_for_the_database_and_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, database = Settings(instance="test", home=tmp_path), sqlite()
    monkeypatch.setattr(journal, "engine", lambda settings: away())
    for name in ("ann", "bob"):
        journal.note(settings, who="host:eve", what="user", name=name, action="added", after="viewer")
    file = tmp_path / "secrets" / journal.FILE
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    kept = file.read_text()
    monkeypatch.setattr(journal, "engine", lambda settings: database)
    journal.take_in(settings)
    assert not file.exists()
    file.write_text(kept + '{"cut short')  # as if it had died before it deleted the file
    journal.take_in(settings)
    journal.take_in(settings)
    found = [(each.who, each.name, each.after) for each in history.entries(database)]
    assert found == [("host:eve", "bob", "viewer"), ("host:eve", "ann", "viewer")]
