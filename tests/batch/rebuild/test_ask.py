"""What is asked for, planned and refused, the same for the command, the pages and the REST API; on SQLite."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.batch.backfill.ask import BadDays
from sluice.batch.rebuild import ask as module
from sluice.batch.rebuild.ask import NothingCountable, PlannedTask, WantedRebuild, ask, plan
from sluice.batch.rebuild.scope import NothingToRebuild, PlannedDay
from sluice.runtime.days import begin_ms
from sluice.storage.tables.rebuilds import Rebuilds
from sluice.tasks.store import UnknownTask
from tests.batch.rebuild.test_scope import state, topic
from tests.storage.booked import DAY, NEXT, database, expire

__all__ = ["database", "topic"]  # fixtures

ALL = WantedRebuild("logs")


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of which each day has two files."""
    monkeypatch.setattr(
        module, "planned", lambda settings, topic, days: [PlannedDay(day, 2, 1_000, 1 << 20) for day in days]
    )


@pytest.mark.usefixtures("archive")
def test_a_plan_has_tasks_days_and_sums_and_changes_nothing(topic: sa.Engine) -> None:
    none: Any = None
    found = plan(none, topic, WantedRebuild("logs", last=DAY))
    assert [(each.name, each.label, each.periods) for each in found.tasks] == [
        ("sample", "1v1", 1),
        ("weekly", "2v1", 1),
    ]
    assert (found.days[0].day, len(found.days), found.left_out) == (date(2015, 5, 14), 7, "")
    assert found.sums == (
        "2 periods, 7 days, 7,000 lines (doubles included); "
        "14 files of 7.0 MiB, each once for each of its days"
    )
    assert Rebuilds(topic, patience=0).unfinished("logs") == []


@pytest.mark.usefixtures("archive")
def test_what_is_asked_for_is_what_was_planned(topic: sa.Engine) -> None:
    expire(topic, NEXT)
    wanted = WantedRebuild("logs", "sample")
    none: Any = None
    planned = plan(none, topic, wanted)
    asked = ask(topic, wanted, "ann")
    assert planned.tasks == (PlannedTask("sample", "1v1", 1),)
    assert asked.left_out == planned.left_out
    assert asked.left_out.startswith("1 periods are left out: retention deleted lines")
    assert (asked.rebuild.versions, asked.rebuild.requested_by) == (((1, 1),), "ann")


def test_the_same_is_not_asked_for_twice_before_it_began(topic: sa.Engine) -> None:
    book = Rebuilds(topic, patience=0)
    first = ask(topic, ALL, "ann").rebuild
    assert ask(topic, ALL, "bob").rebuild == first
    assert ask(topic, WantedRebuild("logs", first=DAY), "bob").rebuild.id == 2
    book.begin(first.id, [], [])
    assert ask(topic, ALL, "bob").rebuild.id == 3
    assert [each.id for each in book.newest("logs", 2)] == [3, 2]
    assert book.newest("other", 2) == []


def test_what_cannot_be_counted_again_is_refused_with_the_reason(topic: sa.Engine) -> None:
    for wanted, kind, said in (
        (WantedRebuild("logs", first=NEXT, last=DAY), BadDays, "name the earlier day first"),
        (WantedRebuild("logs", "nosuch"), UnknownTask, "nosuch"),
        (WantedRebuild("other"), NothingToRebuild, "topic 'other' has no state"),
        (WantedRebuild("logs", last=date(2015, 5, 1)), NothingToRebuild, "from the first to 2015-05-01"),
    ):
        with pytest.raises(kind, match=said):
            ask(topic, wanted, "ann")
    expire(topic, DAY)
    with pytest.raises(NothingCountable, match=r"retention\.archive_days.*Nothing is left to count"):
        ask(topic, WantedRebuild("logs", "weekly"), "ann")
    assert Rebuilds(topic, patience=0).unfinished("logs") == []


def test_state_of_later_days_is_found(topic: sa.Engine) -> None:
    later = date(2015, 6, 1)
    state(topic, begin_ms(later))
    assert ask(topic, WantedRebuild("logs", first=later), "ann").rebuild.first_day == later
