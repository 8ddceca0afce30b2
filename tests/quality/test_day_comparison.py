"""Which periods of several days a comparison of a day may compare; on SQLite."""

from __future__ import annotations

import sqlalchemy as sa

from sluice.quality.day_comparison import _comparable
from sluice.results.periods import Interval
from sluice.runtime.days import begin_ms
from sluice.storage.tables import schema
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.recounts import BlockDamage, Recounts
from tests.storage.booked import DAY, NEXT, database

__all__ = ["database"]  # a fixture

HALF = 43_200_000


def test_a_period_that_is_counted_again_waits(database: sa.Engine) -> None:
    periods = [Interval(start, start + 2 * HALF) for start in (begin_ms(DAY) - HALF, begin_ms(DAY) + HALF)]
    book = Days(database, "logs")
    assert _comparable(book, (1, 1), periods, DAY) == tuple(periods)
    lost = StatePeriod(1, 1, periods[0].start, 1, 1, 5, 100)
    with database.begin() as connection:
        connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(lost)))
    Recounts(database, "logs").set_aside([BlockDamage(lost.key, "lost", lost)])
    assert _comparable(book, (1, 1), periods, DAY) == (periods[1],)
    assert _comparable(book, (1, 2), periods, NEXT) == tuple(periods)  # another version
