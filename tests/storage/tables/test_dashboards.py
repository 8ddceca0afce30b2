"""Dashboards are kept per user: who reads, who changes, what the bounds are, and two changes at once."""

from __future__ import annotations

import pytest

from sluice.storage.tables.dashboards import (
    LONGEST_ADDRESS,
    LONGEST_NAME,
    MOST,
    MOST_CHARTS,
    DashboardChanged,
    DashboardRefused,
    Dashboards,
    PinnedChart,
    UnknownDashboard,
)
from tests.tasks.database import sqlite

HITS, BYTES = PinnedChart("Hits", "task=hits"), PinnedChart("Bytes", "task=bytes&metric=sum")


@pytest.fixture
def boards() -> Dashboards:
    return Dashboards(sqlite())


def test_what_was_pinned_is_there_in_its_order(boards: Dashboards) -> None:
    made = boards.create("ann", "  The   night  ", [HITS])
    boards.pin(made.id, "ann", BYTES)
    found = boards.get(made.id, "ann")
    assert (found.name, found.owner, found.version, found.shared) == ("The night", "ann", 2, False)
    assert found.charts == (HITS, BYTES)
    assert boards.of("ann") == [found]


def test_only_the_owner_sees_one_that_is_not_shared(boards: Dashboards) -> None:
    made = boards.create("ann", "Mine", [HITS])
    for see in (boards.get, boards.own, boards.duplicate):
        with pytest.raises(UnknownDashboard):
            see(made.id, "bob")
    assert boards.shared_with("bob") == []


def test_others_look_at_a_shared_one_and_copy_it_but_do_not_change_it(boards: Dashboards) -> None:
    made = boards.create("ann", "Ours", [HITS], shared=True)
    assert boards.get(made.id, "bob") == made
    assert [(each.id, each.owner) for each in boards.shared_with("bob")] == [(made.id, "ann")]
    assert boards.shared_with("ann") == []
    with pytest.raises(UnknownDashboard):
        boards.pin(made.id, "bob", BYTES)
    with pytest.raises(UnknownDashboard):
        boards.change(made.id, "bob", made.version, name="His", shared=True, charts=[])
    with pytest.raises(UnknownDashboard):
        boards.delete(made.id, "bob", made.version)
    copies = [boards.duplicate(made.id, "bob") for _ in range(2)]
    assert [(each.owner, each.name, each.shared) for each in copies] == [
        ("bob", "Ours", False),
        ("bob", "Ours (2)", False),
    ]
    boards.change(copies[0].id, "bob", 1, name="His", shared=False, charts=[])
    assert boards.get(made.id, "ann") == made


def test_the_second_of_two_changes_is_told_and_changes_nothing(boards: Dashboards) -> None:
    seen = boards.create("ann", "Ours", [HITS, BYTES])
    first = boards.change(seen.id, "ann", seen.version, name="First", shared=True, charts=[BYTES])
    with pytest.raises(DashboardChanged, match="'First' was changed elsewhere") as told:
        boards.change(seen.id, "ann", seen.version, name="Second", shared=False, charts=[])
    assert told.value.dashboard == first == boards.get(seen.id, "ann")
    with pytest.raises(DashboardChanged):
        boards.delete(seen.id, "ann", seen.version)
    boards.delete(seen.id, "ann", first.version)
    with pytest.raises(UnknownDashboard):
        boards.get(seen.id, "ann")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (" \t ", "name: it is empty"),
        ("x" * (LONGEST_NAME + 1), f"at most {LONGEST_NAME}"),
        ("a\0b", "nobody can see"),
        ("half \ud800", "nobody can see"),
        ("turned \u202e round", "nobody can see"),
        ("Ours", "choose another name"),
    ],
)
def test_a_name_that_cannot_be_kept_is_refused(boards: Dashboards, name: str, why: str) -> None:
    other = boards.create("ann", "Another")
    boards.create("ann", "Ours")
    with pytest.raises(DashboardRefused, match=why) as refused:
        boards.create("ann", name)
    assert refused.value.field == "name"
    with pytest.raises(DashboardRefused, match=why):
        boards.change(other.id, "ann", 1, name=name, shared=False, charts=[])
    assert boards.create("bob", "Ours").name == "Ours"  # names are each user's own


def test_a_user_has_a_bounded_number_of_dashboards(boards: Dashboards) -> None:
    made = [boards.create("ann", f"Board {number}") for number in range(MOST)]
    for more in (lambda: boards.create("ann", "Too many"), lambda: boards.duplicate(made[0].id, "ann")):
        with pytest.raises(DashboardRefused, match="delete one first"):
            more()
    boards.delete(made[0].id, "ann", 1)
    boards.create("ann", "Again")


def test_a_dashboard_has_a_bounded_number_of_charts(boards: Dashboards) -> None:
    made = boards.create("ann", "Full", [HITS] * MOST_CHARTS)
    with pytest.raises(DashboardRefused, match="remove one"):
        boards.pin(made.id, "ann", HITS)
    with pytest.raises(DashboardRefused, match="title: it is empty"):
        boards.change(made.id, "ann", 1, name="Full", shared=False, charts=[PinnedChart("", "task=a")])
    with pytest.raises(DashboardRefused, match="address"):
        boards.create("ann", "Long", [PinnedChart("Long", "x" * (LONGEST_ADDRESS + 1))])
    assert boards.get(made.id, "ann") == made


def test_the_name_stays_when_only_its_charts_change(boards: Dashboards) -> None:
    made = boards.create("ann", "Ours", [HITS, BYTES])
    changed = boards.change(made.id, "ann", 1, name="Ours", shared=False, charts=[BYTES, HITS])
    assert (changed.name, changed.charts, changed.version) == ("Ours", (BYTES, HITS), 2)
