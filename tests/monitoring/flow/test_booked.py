"""What the books say of a topic."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import sqlalchemy as sa

from sluice.monitoring.flow.booked import books
from sluice.storage.tables import schema
from tests.tasks.database import sqlite

AT = datetime(2026, 11, 25, 3, tzinfo=UTC)


def test_hops_days_and_dead_letters_by_topic() -> None:
    database = sqlite()
    day = {"topic": "logs", "cut": {}, "run_id": "r", "tasks_seq": 1, "raw_lines": 9, "lines": 8}
    file = {"topic": "logs", "topic_id": "x", "partition": 0, "arrival_min": 1, "days": {}, "unparsed": 0}
    file |= {"generation": 1, "path": "p", "records": 4, "lines": 40, "bytes": 9, "arrival_max": 5_000}
    letter = {"topic": "logs", "partition": 0, "reason": "forged", "bytes": 1, "line": b"x"}
    now = datetime.now(UTC)
    with database.begin() as connection:
        for number, published in ((23, AT), (24, None)):
            row = {**day, "day": date(2026, 11, number), "computed_at": AT, "published_at": published}
            connection.execute(sa.insert(schema.days).values(**row))
        connection.execute(
            sa.insert(schema.archive_files), [{**file, "first": n, "next": n + 4} for n in (0, 4)]
        )
        for offset, age in ((1, 1), (2, 30)):
            row = {**letter, "offset": offset, "arrived_at": now - timedelta(hours=age)}
            connection.execute(sa.insert(schema.dead_letters).values(**row))
    (found,) = books(database).values()
    assert found.hops == {"archived": 80, "archived_records": 8, "computed": 16}
    assert found.lines_a_record == 10
    assert (found.dead, found.archived) == (1, datetime.fromtimestamp(5, UTC))
    assert (found.computed, found.published) == ("2026-11-24", "2026-11-23")
    assert (found.computed_at, found.published_at) == (AT, AT)


def test_without_lines_there_are_no_books() -> None:
    assert books(sqlite()) == {}
