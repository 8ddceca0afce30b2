"""Which days are out of date because a task version began or ended."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sluice.storage.tables import schema
from sluice.storage.tables.days import Days
from tests.storage.booked import DAY, commit, compute, database  # noqa: F401 - a fixture


def version_over(engine: sa.Engine, end: int, end_seq: int | None) -> None:
    row = {"task_id": 1, "version": 1, "first_seq": 1, "topic": "logs", "start": {"0": 0}}
    with engine.begin() as connection:
        connection.execute(sa.insert(schema.task_ranges).values(**row, end={"0": end}, end_seq=end_seq))


@pytest.fixture
def computed(database: sa.Engine) -> sa.Engine:  # noqa: F811
    """A day that was computed up to offset 100, when commit 3, which ended at 60, was the newest."""
    for seq in (1, 2, 3, 4, 5):
        commit(database, seq, seq * 20 - 20, seq * 20)
    compute(database, seq=3)
    return database


@pytest.mark.parametrize(("end", "end_seq", "known"), [(40, 3, True), (60, 4, False), (80, 5, False)])
def test_a_version_that_ended_since_makes_a_day_out_of_date(
    computed: sa.Engine, end: int, end_seq: int, known: bool
) -> None:
    version_over(computed, end, end_seq)
    assert Days(computed, "logs").marked() == ([] if known else [DAY])


@pytest.mark.parametrize(("end", "known"), [(40, True), (60, False), (80, False)])
def test_a_version_whose_last_commit_is_unknown_is_told_by_its_end(
    computed: sa.Engine, end: int, known: bool
) -> None:
    version_over(computed, end, None)
    assert Days(computed, "logs").marked() == ([] if known else [DAY])


def test_an_end_that_the_day_knew_stays_known_when_the_commit_is_gone(computed: sa.Engine) -> None:
    version_over(computed, 40, 3)
    with computed.begin() as connection:
        connection.execute(sa.delete(schema.commits).where(schema.commits.c.seq == 3))
    assert Days(computed, "logs").marked() == []
