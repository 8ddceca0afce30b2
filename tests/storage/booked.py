"""Books of days and backfills with entries, on SQLite without a daemon."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.days import Days
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.tasks.database import sqlite

DAY = date(2015, 5, 17)
NEXT = DAY + timedelta(days=1)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def database() -> sa.Engine:
    engine = sqlite()
    with engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        for name in ("lock", "unlock", "lock_shared", "unlock_shared"):
            raw.create_function(f"pg_advisory_{name}", 1, lambda key: 1)
        raw.create_function("hashtextextended", 2, lambda text, seed: 1)
        raw.create_function("greatest", 2, max)
    TaskStore(engine).apply([spec()], "test")
    return engine


def ask(book: Backfills, first: date = DAY, last: date = NEXT) -> Any:
    return book.request(1, 1, topic="logs", first_day=first, last_day=last, user="ann")


def commit(database: sa.Engine, seq: int, start: int, end: int, at: datetime = NOW) -> None:
    row = {
        "topic": "logs", "seq": seq, "token": "t", "topic_id": "id", "committed_at": at,
        "start": {"0": start}, "end": {"0": end}, "tasks": [],
        "counts": {"records": 10, "doubled": 1, "counted": 7, "dead": 2},
    }  # fmt: skip
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(**row))


def lose(database: sa.Engine, era: int, settled: bool = False) -> None:
    """Kafka lost records of `logs` that had been read, and an era began."""
    row = {"topic": "logs", "partition": 0, "topic_id": "id", "era": era, "begins": 200, "reached": 240}
    epoch = {"epoch": era, "settled_epoch": era if settled else None}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.log_eras).values(**row, **epoch))


def expire(database: sa.Engine, day: date) -> None:
    """Retention deleted lines of the day from the archive of `logs`."""
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_expired_days).values(topic="logs", day=day, lines=3))


def open_range(database: sa.Engine, seq: int, start: int, task_id: int = 1) -> None:
    row = {"task_id": task_id, "version": 1, "first_seq": seq, "topic": "logs", "start": {"0": start}}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.task_ranges).values(**row))


def compute(database: sa.Engine, day: date = DAY, backfills: int = 0, seq: int = 1) -> None:
    Days(database, "logs").set_computed(
        day, cut={"0": 100}, run_id="r", tasks_seq=seq, raw_lines=1, lines=1, backfills=backfills
    )
