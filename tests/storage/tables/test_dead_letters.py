"""Dead letters are looked for within bounds, so that a page about many of them harms nobody."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import dead_letters
from sluice.storage.tables.dead_letters import by_reason, newest
from tests.tasks.database import sqlite

LONG_AGO = datetime(2015, 5, 17, tzinfo=UTC)


def test_postgres_is_told_how_long_it_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, ...]] = []
    database = sqlite()
    with database.connect() as connection:
        own = connection.connection.dbapi_connection
        own.create_function("set_config", 3, lambda *given: told.append(given))  # type: ignore[union-attr]
        own.create_function("timezone", 2, lambda zone, at: at)  # type: ignore[union-attr]
    monkeypatch.setattr(database.dialect, "name", "postgresql")
    assert newest(database, "logs") == []
    assert by_reason(database, "logs", LONG_AGO) == {}
    assert told == [("statement_timeout", "5s", 1)] * 2  # 1: for this transaction


@pytest.mark.stack
def test_what_takes_too_long_is_given_up(stack: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PATIENCE", "100ms")
    database = engine(stack)
    with database.begin() as other:
        other.execute(sa.text("LOCK TABLE dead_letters IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(OperationalError, match="statement timeout"):
            newest(database, "logs")
        with pytest.raises(OperationalError, match="statement timeout"):
            by_reason(database, "logs", LONG_AGO)
    with database.connect() as connection:
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"
