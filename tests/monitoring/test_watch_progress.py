"""What the watch finds out, and what it keeps of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka.errors import KafkaConnectionError

from sluice.monitoring import books, observer, watch_progress
from sluice.monitoring.observer import Observer
from sluice.runtime.holds import Hold, hold
from sluice.stack.progress import AgentAnswer, WatchProgress
from sluice.storage.tables import alerts, reconciled, samples, schema
from tests.monitoring.instance import running, settings_of
from tests.own_time import own_time
from tests.tasks.database import sqlite

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


@pytest.fixture
def database() -> Iterator[sa.Engine]:
    engine = sqlite()
    yield engine
    engine.dispose()


def book(connection: sa.Connection) -> None:
    """Two topics: files, losses, tasks, days and alerts, each in every state."""
    file = {"topic": "logs", "topic_id": "x", "arrival_min": 1, "days": {}, "unparsed": 0, "generation": 1}
    file |= {"path": "p", "records": 9, "lines": 20, "bytes": 300}
    files = [
        {**file, "partition": at, "first": first, "next": first + 9, "arrival_max": 1000 + first}
        for at, first in ((0, 0), (0, 9), (1, 0))
    ]
    loss = {"topic": "shop", "topic_id": "x", "partition": 0, "first": 5, "next": 9, "reason": "expired"}
    task = {"topic": "logs", "version": 1}
    tasks = [
        {**task, "name": "a", "enabled": True, "failed_at": None, "deleted_at": None},
        {**task, "name": "b", "enabled": False, "failed_at": None, "deleted_at": None},
        {**task, "name": "c", "enabled": True, "failed_at": NOW, "deleted_at": None},
        {**task, "name": "d", "enabled": True, "failed_at": None, "deleted_at": NOW},
    ]
    day = {"topic": "logs", "cut": {}, "run_id": "r", "tasks_seq": 1, "raw_lines": 1, "lines": 1}
    day |= {"computed_at": NOW}
    days = [
        {**day, "day": date(2026, 11, 1), "published_at": NOW},
        {**day, "day": date(2026, 11, 2), "published_at": None},
        {**day, "day": date(2026, 11, 3), "published_at": NOW - timedelta(days=1)},  # computed again since
    ]
    alerts = [
        {"source": "collection", "name": "x", "message": "m", "cleared_at": None},
        {"source": "collection", "name": "y", "message": "m", "cleared_at": NOW},
    ]
    for table, rows in (
        (schema.archive_files, files),
        (schema.archive_losses, [loss]),
        (schema.tasks, tasks),
        (schema.days, days),
        (schema.alerts, alerts),
    ):
        connection.execute(sa.insert(table), rows)


def test_the_books_count_by_topic(database: sa.Engine) -> None:
    with database.begin() as connection:
        book(connection)
        found = books.books(connection)
    assert found == {
        "archive": {
            "logs": {"files": 3, "lines": 60, "bytes": 900, "lost_records": 0},
            "shop": {"files": 0, "lines": 0, "bytes": 0, "lost_records": 4},
        },
        "tasks": {"logs": {"active": 1, "paused": 1, "failed": 1}},
        "reconciled": {},
        "unpublished": {"logs": 2},
        "alerts": {"collection": 1},
    }


def test_a_day_counts_by_its_last_comparison(database: sa.Engine) -> None:
    for day, outcome, at in (
        (1, "differs", NOW),
        (1, "agrees", NOW),
        (2, "agrees", NOW - timedelta(days=40)),
    ):
        found = reconciled.DayCompared("logs", date(2026, 11, day), at, outcome, 0, 0, {})
        reconciled.note(database, found)
    with database.connect() as connection:
        assert reconciled.counted(connection, NOW - timedelta(days=31)) == {"logs": {"agrees": 1}}


def test_samples_of_24_hours_are_kept(database: sa.Engine) -> None:
    for minutes in range(0, 26 * 60, 30):
        document = {"sluice_bytes_total": [[{"topic": "logs"}, minutes]]}
        samples.add(database, NOW + timedelta(minutes=minutes), document)
    found = samples.since(database, NOW, "sluice_bytes_total")
    assert [values[0][1] for _, values in found] == list(range(90, 26 * 60, 30))
    assert {tuple(values) for _, values in samples.since(database, NOW, "sluice_tasks")} == {()}


def test_a_part_that_is_away_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> Any:
        raise KafkaConnectionError("no broker\nand a second line")

    monkeypatch.setattr(watch_progress, "lag", away)
    monkeypatch.setattr(watch_progress, "agents", lambda _: {"web1": AgentAnswer(answers=False)})
    monkeypatch.setattr(watch_progress, "_books", lambda _: {})
    said: list[str] = []
    found = watch_progress.collect(settings_of(tmp_path), {"kafka": "down"}, said.append)
    assert found.lag is None
    assert (found.agents, found.daemons) == ({"web1": AgentAnswer(answers=False)}, {"kafka": "down"})
    assert [text.count("\n") for text in said] == [0]


@pytest.fixture
def observing(tmp_path: Path, database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Observer:
    settings = running(tmp_path)

    def collect(_: Any, problems: dict[str, str], say: Any) -> WatchProgress:
        return WatchProgress(updated_at=NOW, daemons=problems, agents={}, lag={}, books={})

    monkeypatch.setattr(watch_progress, "collect", collect)
    monkeypatch.setattr(observer, "engine", lambda _: database)
    return Observer(settings, lambda text: None)


def test_the_watch_keeps_a_sample_a_minute(
    observing: Observer, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1_000.0]
    own_time(monkeypatch, observer, monotonic=lambda: clock[0])
    for seconds in (0, 20, 20, 20, 20):
        clock[0] += seconds
        observing.observe({"kafka": ""})
    longest = datetime.now(UTC) - timedelta(hours=1)
    assert len(samples.since(database, longest, "sluice_bytes_total")) == 2
    (healthy, *_) = samples.since(database, longest, "sluice_daemon_healthy")
    assert healthy[1] == [[{"daemon": "kafka"}, 1.0]]
    (fresh, *_) = samples.since(database, longest, "sluice_freshness_seconds")
    assert fresh[1][0][1] == {"lines": 20, "sum": 18.0, "upto": {"0.5": 14, "1": 6, "+Inf": 0}}


def test_a_look_that_hangs_holds_the_watch_up_not_even_once(
    observing: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on, looks = threading.Event(), []

    def hanging(_: Any, problems: Any, say: Any) -> Any:
        looks.append(problems)
        going_on.wait(30)
        raise OSError("the broker is gone")

    monkeypatch.setattr(watch_progress, "collect", hanging)
    for number in range(3):
        observing({"kafka": str(number)})
    going_on.set()
    assert observing._thread is not None
    observing._thread.join()
    assert looks == [{"kafka": "0"}]
    observing({"kafka": "3"})
    observing._thread.join()
    assert looks == [{"kafka": "0"}, {"kafka": "3"}]


def test_a_full_disk_that_takes_no_file_is_told_of_all_the_same(
    observing: Observer, database: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(watch_progress, "write", full)
    hold(tmp_path, Hold.INTAKE, "no space")
    observing.observe({})
    assert [alert.name for alert in alerts.open_alerts(database, "disks")] == ["held: intake"]
