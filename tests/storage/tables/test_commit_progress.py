"""Where the speed layer was some time ago, by few of its commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sluice.storage.tables import schema
from sluice.storage.tables.commit_progress import committed
from tests.examples import examples
from tests.tasks.database import sqlite

AT = datetime(2026, 1, 1, tzinfo=UTC)


@given(ages=st.lists(st.integers(0, 9)), since=st.integers(0, 10))
@examples(50)
def test_it_was_at_the_end_of_the_newest_commit_then_or_where_the_first_begins(
    ages: list[int], since: int
) -> None:
    database, ordered = sqlite(), sorted(ages, reverse=True)
    with database.begin() as connection:
        for seq, age in enumerate(ordered, 1):
            row = {"topic": "logs", "seq": seq, "token": "t", "topic_id": "id", "tasks": [], "counts": {}}
            row |= {"committed_at": AT - timedelta(minutes=age), "start": {"0": seq}, "end": {"0": seq + 1}}
            connection.execute(sa.insert(schema.commits).values(**row))
        found = committed(connection, "logs", AT - timedelta(minutes=since))
    older = [seq for seq, age in enumerate(ordered, 1) if age >= since]
    assert found.now == ({0: len(ages) + 1} if ages else {})
    assert found.then == ({0: older[-1] + 1 if older else 1} if ages else {})
