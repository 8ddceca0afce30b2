from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.monitoring import damaged_files
from sluice.monitoring.damaged_files import FORGOTTEN, NAME, SOURCE, damaged, tell, tell_forgotten
from sluice.runtime.settings import Settings
from sluice.stack.health import Unhealthy
from sluice.storage.tables.alerts import open_alerts
from sluice.storage.tables.schema import alerts
from tests.tasks.database import sqlite


def test_ten_files_are_named_and_the_others_counted() -> None:
    assert dict(damaged([])) == {}
    (message,) = dict(damaged([f"/sluice/raw/{number:02}" for number in range(12)])).values()
    assert "/sluice/raw/09 and 2 more: they cannot be read" in message
    assert "/sluice/raw/10" not in message
    assert "HBase" not in message


def test_files_of_hbase_are_to_be_set_aside_even_if_others_are_named() -> None:
    files = [f"/archive/{number:02}" for number in range(12)]
    (message,) = dict(damaged([*files, "/hbase/data/default/state/1/s/2"])).values()
    assert "HBase does not serve the regions of files below /hbase/data/" in message


def test_the_alert_is_raised_and_cleared_and_stays_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Any] = {"CorruptFiles": json.dumps(["blk_1073741843\t1\t/hbase/data/x"])}

    def jmx(url: str, bean: str) -> dict[str, Any]:
        if not answer:
            raise Unhealthy("no answer")
        return answer

    monkeypatch.setattr(damaged_files, "jmx", jmx)
    database, settings = sqlite(), Settings(instance="test")
    tell(settings, database)
    (alert,) = open_alerts(database, SOURCE)
    assert (alert.name, "lost blocks of /hbase/data/x:" in alert.message) == (NAME, True)
    answer.clear()
    tell(settings, database)
    assert len(open_alerts(database, SOURCE)) == 1
    answer["CorruptFiles"] = "[]"
    tell(settings.model_copy(update={"external": ("hdfs",)}), database)
    assert len(open_alerts(database, SOURCE)) == 1
    tell(settings, database)
    assert open_alerts(database, SOURCE) == []


def test_forgotten_files_are_named_until_what_is_old_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_files, "jmx", lambda url, bean: {"CorruptFiles": "[]"})
    database, settings = sqlite(), Settings(instance="test")
    tell_forgotten(database, "312 bytes")
    tell(settings, database)
    (alert,) = open_alerts(database, SOURCE)
    assert (alert.name, alert.message) == (FORGOTTEN, "312 bytes")
    old = datetime.now(UTC) - timedelta(days=settings.retention.days + 1)
    with database.begin() as connection:
        connection.execute(sa.update(alerts).values(raised_at=old))
    tell(settings, database)
    assert open_alerts(database, SOURCE) == []
