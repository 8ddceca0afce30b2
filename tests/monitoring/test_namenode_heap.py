from __future__ import annotations

from typing import Any

import pytest

from sluice.monitoring import namenode_heap
from sluice.monitoring.namenode_heap import NEARLY_FULL, OBJECT_BYTES, SOURCE, nearly_full, tell
from sluice.runtime.settings import Settings
from sluice.stack.health import Unhealthy
from sluice.storage.tables.alerts import open_alerts
from tests.tasks.database import sqlite

HEAP = 224 << 20
FULL = int(HEAP * NEARLY_FULL / OBJECT_BYTES)


def test_it_is_said_before_the_heap_is_full_with_both_remedies() -> None:
    assert dict(nearly_full(FULL, HEAP)) == {}
    (message,) = dict(nearly_full(FULL + 1, HEAP)).values()
    for part in (
        "1,252,699 files and blocks",
        "224 MiB",
        "80%",
        "sluice archive compact",
        "heaps: {namenode",
    ):
        assert part in message
    days = FULL / 2 / 23_040  # a file and its block, four partitions, one each 15 s
    assert 25 < days < 30  # it was full after 30 days


def test_the_alert_is_raised_and_cleared_and_stays_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: dict[str, Any] = {"FilesTotal": FULL, "BlocksTotal": 9, "HeapMemoryUsage": {"max": HEAP}}

    def jmx(url: str, bean: str) -> dict[str, Any]:
        if not answer:
            raise Unhealthy("no answer")
        return answer

    monkeypatch.setattr(namenode_heap, "jmx", jmx)
    database, settings = sqlite(), Settings(instance="test")
    tell(settings, database)
    (alert,) = open_alerts(database, SOURCE)
    assert alert.name == "namenode"
    full = dict(answer)
    answer.clear()
    tell(settings, database)
    assert len(open_alerts(database, SOURCE)) == 1
    answer.update(full, FilesTotal=7)
    tell(settings.model_copy(update={"external": ("hdfs",)}), database)
    assert len(open_alerts(database, SOURCE)) == 1
    tell(settings, database)
    assert open_alerts(database, SOURCE) == []
