"""What a sample has beside the figures: hot keys, load by worker, lines at each hop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.monitoring import sampled
from sluice.monitoring.observer import Observer
from sluice.monitoring.sampled import KEYS, TASKS, WORKERS
from sluice.stack.progress import CountedTopic, SpeedLayerProgress
from sluice.storage.tables import samples, schema
from tests.cli.routed import ROUTED, document
from tests.monitoring.instance import running
from tests.tasks.database import sqlite


def progress(*reports: dict[str, Any]) -> SpeedLayerProgress:
    grouping = {str(number): each for number, each in enumerate(reports)}
    return SpeedLayerProgress(topics={"logs": CountedTopic(grouping=grouping)})


def test_shares_of_keys_and_of_workers_by_task() -> None:
    found = sampled.hot(progress(ROUTED))
    of = {"topic": "logs", "task": "routed"}
    assert found == {
        sampled.HOT_KEYS: [[{**of, "key": ["/a"]}, 0.125]],
        sampled.WORKER_LOAD: [[{**of, "worker": 0}, 0.6], [{**of, "worker": 1}, 0.4]],
    }
    assert sampled.hot(SpeedLayerProgress()) == {sampled.HOT_KEYS: [], sampled.WORKER_LOAD: []}


def test_there_are_never_many_and_the_hottest_are_kept() -> None:
    def key(share: float) -> dict[str, Any]:
        return {"key": ["x"], "share": share, "error": 0.0, "workers": []}

    load = [{"worker": n, "tuples": n + 1, "seconds": 1.0, "time": 1.0} for n in range(64)]
    reports = [document(f"task{n}", hot=[key(n / 100)] * 10, load=load) for n in range(60)]
    found = sampled.hot(progress(*reports))
    assert len(found[sampled.HOT_KEYS]) == TASKS * KEYS
    assert len(found[sampled.WORKER_LOAD]) == TASKS * WORKERS
    assert found[sampled.HOT_KEYS][0][0]["task"] == "task59"
    assert found[sampled.WORKER_LOAD][0][0]["worker"] == 63


@pytest.mark.parametrize(("value", "kept"), [("a\0b", "a\ufffdb"), ("\ud83d", "?"), ("ü☃", "ü☃")])
def test_a_key_is_what_the_database_takes(value: str, kept: str) -> None:
    assert sampled.storable(value) == kept
    json.dumps(kept).encode()


def test_hops_are_sums_of_the_books() -> None:
    database = sqlite()
    commit = {"topic": "logs", "token": "t", "start": {}, "tasks": [], "counts": {}}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.projections).values(topic="logs", seq=1))
        for seq in (1, 2):
            end = {"0": 10 * seq, "1": 5}
            connection.execute(sa.insert(schema.commits).values(**commit, seq=seq, end=end))
        event = {"topic": "logs", "partition": 0, "lines": 30, "last_offset": 1}
        for day in ("2026-11-23", "2026-11-24"):
            row = {**event, "day": sa.func.date(day)}
            connection.execute(sa.insert(schema.event_days).values(**row))
        found = {labels["hop"]: lines for labels, lines in sampled.hops(connection)[sampled.HOPS]}
    assert found == {"records": 25, "online": 60}


def test_the_watch_keeps_them_with_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime, timedelta

    from sluice.monitoring import observer, watch_progress

    database = sqlite()
    settings = running(tmp_path)
    monkeypatch.setattr(observer, "engine", lambda settings: database)
    monkeypatch.setattr(watch_progress, "collect", lambda *arguments: {})
    monkeypatch.setattr(watch_progress, "write", lambda *arguments: None)
    Observer(settings, print).observe({})
    ((_, found),) = samples.several(
        database, datetime.now(UTC) - timedelta(hours=1), [sampled.HOT_KEYS, "sluice_bytes_total"]
    )
    assert [labels["task"] for labels, _ in found[sampled.HOT_KEYS]] == ["combined", "routed"]
    assert found["sluice_bytes_total"]
