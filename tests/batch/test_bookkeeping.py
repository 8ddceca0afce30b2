"""The books in PostgreSQL are kept small, and what they are asked stays the same."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.batch import bookkeeping
from sluice.runtime.settings import get_settings
from sluice.storage.tables import reconciled, schema, tallies
from sluice.storage.tables.reconciled import ComparisonOutcome, DayCompared
from tests.storage.booked import commit, database  # noqa: F401 - a fixture

NOW = datetime(2026, 1, 20, tzinfo=UTC)
DAY, KEPT = date(2024, 5, 17), date(2026, 1, 1)


def count(engine: sa.Engine, table: sa.Table) -> int:
    with engine.connect() as connection:
        return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def insert(engine: sa.Engine, table: sa.Table, *rows: dict[str, Any]) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(table), rows)


def run(engine: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(bookkeeping, "engine", lambda settings: engine)
    return bookkeeping.run(get_settings(), NOW)


@pytest.fixture
def old(database: sa.Engine) -> sa.Engine:  # noqa: F811
    """Old and young commits, a dropped day and one that is kept, with outcomes; old and young alerts."""
    for seq in range(1, 7):
        commit(database, seq, seq * 10, seq * 10 + 10, NOW - timedelta(days=3, minutes=-seq))
    commit(database, 7, 70, 80, NOW)
    insert(database, schema.projections, {"topic": "logs", "seq": 7})
    insert(database, schema.dropped_days, {"topic": "logs", "day": DAY})
    tally = {"topic": "logs", "counted": 5, "filtered": 1, "unmatched": 2, "too_long": 3}
    insert(
        database,
        schema.tallies,
        *({**tally, "layer": layer, "day": day, "task_id": task, "version": min(task, 1)}
          for layer in ("online", "filled", "offline") for day in (DAY, KEPT) for task in (0, 1)),
    )  # fmt: skip
    for day in (DAY, KEPT):
        reconciled.note(database, DayCompared("logs", day, NOW, ComparisonOutcome.AGREES, 1, 0, {}))
    alert = {"source": "s", "message": "m", "raised_at": NOW - timedelta(days=900)}
    ages: dict[str, datetime | None] = {
        "open": None,
        "old": NOW - timedelta(days=500),
        "young": NOW - timedelta(days=5),
    }
    for name, cleared in ages.items():
        insert(database, schema.alerts, {**alert, "name": name, "cleared_at": cleared})
    return database


def test_what_is_over_is_summed_up_or_deleted(old: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    with old.connect() as connection:
        before = tallies.of_topic(connection, "logs"), tallies.unknown_lines(connection, "logs")
    assert run(old, monkeypatch) == [
        "logs: 5 commits folded",
        "logs: 6 outcomes of dropped days summed up",
        "logs: 1 comparisons of dropped days deleted",
        "1 alerts deleted",
    ]
    with old.connect() as connection:
        after = tallies.of_topic(connection, "logs"), tallies.unknown_lines(connection, "logs")
        names = connection.scalars(sa.select(schema.alerts.c.name).order_by(schema.alerts.c.name)).all()
    assert after == before
    assert tallies.of_version(old, "logs", (1, 1)) == {KEPT: tallies.Tally(10, 2, 4, 6)}
    assert names == ["open", "young"]
    assert [len(reconciled.of_day(old, "logs", day)) for day in (DAY, KEPT)] == [0, 1]
    assert (count(old, schema.commits), count(old, schema.reconciled_days)) == (2, 2)


def test_what_comes_for_a_dropped_day_is_added_the_next_time(
    old: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(old, monkeypatch)
    assert run(old, monkeypatch)[:3] == [
        "logs: 0 commits folded",
        "logs: 0 outcomes of dropped days summed up",
        "logs: 0 comparisons of dropped days deleted",
    ]
    tally = {"topic": "logs", "counted": 1, "filtered": 0, "unmatched": 0, "too_long": 0}
    insert(old, schema.tallies, {**tally, "layer": "online", "day": DAY, "task_id": 1, "version": 1})
    assert run(old, monkeypatch)[1] == "logs: 1 outcomes of dropped days summed up"
    with old.connect() as connection:
        assert tallies.of_topic(connection, "logs")[1, 1] == tallies.Tally(21, 4, 8, 12)
