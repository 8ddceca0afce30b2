"""Days that were published and filled, on SQLite without a daemon."""

from __future__ import annotations

from datetime import date

import pytest
import sqlalchemy as sa

from sluice.storage.tables.backfills import Backfill, Backfills
from sluice.storage.tables.days import published_now
from tests.storage.booked import ask, commit, compute, open_range


@pytest.fixture
def book(database: sa.Engine) -> Backfills:
    commit(database, 1, 0, 100)
    open_range(database, 1, 40)
    return Backfills(database, patience=0)


def publish(book: Backfills, day: date, backfills: int = 0) -> None:
    compute(book.engine, day, backfills)
    with book.engine.begin() as connection:
        published_now(connection, "logs", day, {"0": 100})


def fill(book: Backfills, first: date, last: date) -> Backfill:
    asked = ask(book, first, last)
    with book.filling(asked) as filling:
        for day in asked.days:
            filling.replace(day, [], 1)
            filling.set_projected(day)
    book.set_finished(asked.id)
    return book.get(asked.id)
