"""A task that fails for good raises an alert, and its next success clears it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.storage.tables.alerts import open_alerts
from sluice_airflow import connections, defaults
from tests.tasks.database import sqlite


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    from sluice.storage import postgres

    made = sqlite()
    monkeypatch.setattr(connections, "settings", lambda: None)
    monkeypatch.setattr(postgres, "engine", lambda settings: made)
    return made


def context(error: BaseException | None = None, task: str = "batch") -> Any:
    return {
        "exception": error,
        "dag_run": SimpleNamespace(run_id="manual__1"),
        "task_instance": SimpleNamespace(dag_id="nightly_batch", task_id=task),
    }


def test_what_failed_is_said_until_it_ends_well(database: sa.Engine) -> None:
    defaults.alert(context(ValueError("day: 'x' is no day\nand more")))
    defaults.alert(context(None, "every_topic"))
    first, second = open_alerts(database, defaults.SOURCE)
    assert first.name == "nightly_batch.batch"
    assert first.message == "nightly_batch.batch failed in run manual__1: day: 'x' is no day"
    assert second.message.endswith("it was stopped or lost")
    defaults.clear(context(None, "every_topic"))
    assert [alert.name for alert in open_alerts(database)] == ["nightly_batch.batch"]
    defaults.clear(context())
    assert open_alerts(database) == []


def test_a_database_that_is_away_does_not_change_how_the_task_ends(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.dispose()
    sa.event.listen(database, "do_connect", _away)
    defaults.alert(context(ValueError("x")))


def _away(*_: Any) -> None:
    raise OSError("PostgreSQL is away")
