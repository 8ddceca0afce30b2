"""A failure counts for a while, longer after each further one, and until a unit arrives."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.storage.tables.units import MOVED_MEANWHILE, MoveRow
from sluice_hosts.units.failures import FIRST, LONGEST, failures

AT = datetime(2026, 11, 25, 12, tzinfo=UTC)
C1, C2 = "collector:c1", "collector:c2"


def moved(unit: str, target: str, minutes: float, error: str = "", took: float = 0) -> MoveRow:
    """A move that ended so many minutes before AT, and took so many."""
    ended = AT - timedelta(minutes=minutes)
    return MoveRow(1, unit, "h1", target, "why", True, ended - timedelta(minutes=took), ended, error)


def test_a_target_is_avoided_by_all_and_the_unit_stays_until_a_while_is_over() -> None:
    rows = [moved(C1, "h2", 9, "no Java")]
    found = failures(rows, AT)
    assert str(found.at(C2, "h2")) == "a move of collector:c1 to h2 failed at 11:51 UTC (no Java)"
    assert found.of(C1)
    assert not found.of(C2)
    assert not found.at(C2, "h3")
    assert [each.target for each in found.hosts] == ["h2"]
    later = failures(rows, AT + timedelta(minutes=2))
    assert not later.at(C1, "h2")
    assert not later.of(C1)
    assert not failures(rows, AT, since=AT - timedelta(minutes=1)).found


@pytest.mark.parametrize(("count", "waits"), [(1, FIRST), (2, 2 * FIRST), (3, 4 * FIRST), (20, LONGEST)])
def test_each_further_failure_counts_for_twice_as_long(count: int, waits: timedelta) -> None:
    found = failures([moved(C1, "h2", 0, "no")] * count, AT).at(C1, "h2")
    assert found
    assert found.until == AT + waits


def test_moves_that_fail_side_by_side_count_as_one_failure() -> None:
    side_by_side = [moved(f"collector:c{n}", "h2", n, "no", took=4) for n in range(4)]
    found = failures(side_by_side, AT).at("collector:c9", "h2")
    assert found
    assert found.until == AT + FIRST
    after = failures([*side_by_side, moved(C1, "h2", -4, "no", took=4)], AT).at("collector:c9", "h2")
    assert after
    assert after.until == AT + timedelta(minutes=4) + 2 * FIRST


def test_an_arrival_ends_only_failures_that_ended_before() -> None:
    """Rows are in the order in which the moves began."""
    assert failures([moved(C1, "h2", 1, "no", took=5), moved(C2, "h2", 2)], AT).at("collector:c9", "h2")
    assert not failures([moved(C1, "h2", 2), moved(C2, "h2", 3, "no")], AT).at("collector:c9", "h2")


def test_an_arrival_ends_it_for_the_host_and_for_the_unit() -> None:
    rows = [moved(C1, "h2", 5, "its channel does not drain"), moved(C2, "h2", 4)]
    found = failures(rows, AT)
    assert not found.at(C2, "h2")
    assert found.at(C1, "h2"), "the unit itself has not arrived"
    assert not failures([*rows, moved(C1, "h2", 3)], AT).found
    assert not failures([*rows, moved(C1, "h3", 3)], AT).of(C1)


def test_a_unit_that_somebody_else_moved_neither_failed_nor_arrived() -> None:
    meanwhile = moved(C1, "h2", 4, MOVED_MEANWHILE)
    assert not failures([meanwhile], AT).found
    assert failures([moved(C2, "h2", 5, "no Java"), meanwhile], AT).at(C1, "h2")


def test_a_move_without_an_end_has_not_failed() -> None:
    row = moved(C1, "h2", 1)
    assert not failures([MoveRow(**{**vars(row), "ended_at": None})], AT).found
