"""Which periods a rebuild counts again: whole ones, of the wanted days, within retention; on SQLite."""

from __future__ import annotations

from datetime import date

import pytest
import sqlalchemy as sa

from sluice.batch.rebuild.scope import (
    NothingToRebuild,
    planned,
    scope,
    scope_of,
    versions_with_state,
)
from sluice.runtime.days import begin_ms
from sluice.storage.tables import schema
from sluice.storage.tables.epochs import PeriodKey, StatePeriod
from sluice.storage.tables.rebuilds import Rebuilds
from sluice.storage.tables.recounts import BlockDamage, Recounts
from sluice.tasks.store import TaskStore, UnknownTask
from tests.engine.samples import spec
from tests.storage.booked import DAY, NEXT, database

__all__ = ["database"]  # a fixture

WEEK = [date(2015, 5, n) for n in range(14, 21)]  # 1970 began on a Thursday


def state(database: sa.Engine, *starts: int, task: int = 1) -> None:
    with database.begin() as connection:
        for start in starts:
            row = {"topic": "logs", **vars(StatePeriod(task, 1, start, 1, 1, 5, 100))}
            connection.execute(sa.insert(schema.state_periods).values(**row))


def keys(*starts: int, task: int = 1) -> set[PeriodKey]:
    return {(task, 1, start) for start in starts}


@pytest.fixture
def topic(database: sa.Engine) -> sa.Engine:
    TaskStore(database).apply([spec(), spec(name="weekly", period="7d")], "test")
    state(database, begin_ms(DAY), begin_ms(NEXT))
    state(database, begin_ms(WEEK[0]), task=2)
    return database


def test_a_period_is_counted_as_a_whole_with_all_days_that_it_touches(topic: sa.Engine) -> None:
    wanted = keys(begin_ms(DAY), begin_ms(NEXT)) | keys(begin_ms(WEEK[0]), task=2)
    found = scope(topic, "logs", wanted)
    assert (found.keys, found.days, found.dropped) == (wanted, tuple(WEEK), frozenset())
    assert found.versions == [(1, 1), (2, 1)]
    found = scope(topic, "logs", wanted, first=NEXT, last=NEXT)
    assert found.keys == keys(begin_ms(NEXT)) | keys(begin_ms(WEEK[0]), task=2)
    assert found.days == tuple(WEEK)  # the week is not counted in part
    assert scope(topic, "logs", wanted, last=date(2015, 5, 1)).keys == set()


def test_what_retention_dropped_is_not_counted_again(topic: sa.Engine) -> None:
    with topic.begin() as connection:
        connection.execute(sa.insert(schema.dropped_days).values(topic="logs", day=DAY))
    wanted = keys(begin_ms(DAY)) | keys(begin_ms(WEEK[0]), task=2)
    found = scope(topic, "logs", wanted)
    assert found.dropped == keys(begin_ms(DAY))
    assert found.keys == keys(begin_ms(WEEK[0]), task=2)  # it has days that are kept


def test_what_the_archive_lacks_is_not_counted_too_small(topic: sa.Engine) -> None:
    with topic.begin() as connection:
        connection.execute(sa.insert(schema.archive_expired_days).values(topic="logs", day=DAY, lines=3))
    week = keys(begin_ms(WEEK[0]), task=2)
    found = scope(topic, "logs", keys(begin_ms(DAY), begin_ms(NEXT)) | week)
    assert found.expired == keys(begin_ms(DAY)) | week  # a period of several days, too
    assert (found.keys, found.days) == (keys(begin_ms(NEXT)), (NEXT,))
    assert found.left_out.startswith("2 periods are left out: retention deleted lines of their days")


def test_a_rebuild_has_the_state_of_its_versions_or_what_was_set_aside(topic: sa.Engine) -> None:
    book = Rebuilds(topic, patience=0)
    lost = StatePeriod(1, 1, begin_ms(DAY), 1, 1, 5, 100)
    Recounts(topic, "logs", patience=0).set_aside([BlockDamage(lost.key, "lost", lost)])
    of_task = book.request("logs", [(1, 1)], user="ann")
    assert scope_of(topic, of_task).keys == keys(begin_ms(DAY), begin_ms(NEXT))
    aside = book.request("logs", None, user="sluice")
    assert scope_of(topic, aside).keys == keys(begin_ms(DAY))


def test_the_versions_of_a_task_are_found_by_its_name(topic: sa.Engine) -> None:
    assert versions_with_state(topic, "logs") == [(1, 1), (2, 1)]
    assert versions_with_state(topic, "logs", "weekly") == [(2, 1)]
    with pytest.raises(UnknownTask):
        versions_with_state(topic, "logs", "nosuch")
    with pytest.raises(NothingToRebuild, match="topic 'other' has no state: there is nothing to count again"):
        versions_with_state(topic, "other")
    with pytest.raises(NothingToRebuild, match="task 'weekly' has counted nothing of topic 'other'"):
        versions_with_state(topic, "other", "weekly")


def test_a_plan_says_what_each_day_would_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace
    from typing import Any

    from sluice.batch.rebuild import scope as module

    files = {
        DAY: [
            SimpleNamespace(days={str(DAY): 5}, bytes=10),
            SimpleNamespace(days={str(DAY): 2, str(NEXT): 9}, bytes=20),
        ]
    }
    monkeypatch.setattr(module.index, "positions", lambda settings, topic: {0: 9})
    monkeypatch.setattr(module.index, "files_for", lambda settings, topic, day, cut: files.get(day, []))
    none: Any = None
    found = planned(none, "logs", [DAY, NEXT])
    assert [(each.day, each.files, each.lines, each.bytes) for each in found] == [
        (DAY, 2, 7, 30),
        (NEXT, 0, 0, 0),
    ]
