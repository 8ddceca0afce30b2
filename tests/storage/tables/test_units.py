"""What is known of units is replaced as a whole; moves are counted by the hour, and few are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow, UnitRow
from tests.tasks.database import sqlite

AT = datetime(2026, 11, 25, 12, tzinfo=UTC)


def move(unit: str = "collector:c1", counts: bool = True) -> dict[str, object]:
    return {"unit": unit, "source": "h1", "target": "h2", "why": "h1 is busy", "counts": counts}


def test_units_and_hosts_are_read_as_they_were_written_and_others_are_gone() -> None:
    database = sqlite()
    unit = UnitRow("collector:c1", {"cpu": [0.25, 0.5]}, {"at": 1.0})
    host = HostRow("h1", AT, 4, 1.5, AT, {"others": [1.0, 1.0]}, {"busy": 3.0}, AT, "no route")
    for units, hosts in (([unit, UnitRow("collector:c2")], [host, HostRow("h2", AT)]), ([unit], [host])):
        with database.begin() as connection:
            book.write(connection, units, hosts)
    with database.connect() as connection:
        assert book.read_units(connection) == {"collector:c1": unit}
        assert book.read_hosts(connection) == {"h1": host}


def test_a_move_beyond_the_budget_of_an_hour_does_not_begin() -> None:
    database = sqlite()
    with database.begin() as connection:
        assert book.begin(connection, move(), AT, budget=2)
        assert book.begin(connection, move(counts=False), AT, budget=0)
        assert book.begin(connection, move(), AT + timedelta(minutes=30), budget=2)
        assert book.begin(connection, move(), AT + timedelta(minutes=59), budget=2) is None
        assert book.counted(connection, AT + timedelta(minutes=59)) == 2
        assert book.begin(connection, move(), AT + timedelta(minutes=60), budget=2)


def test_a_move_ends_and_only_the_last_ones_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "KEPT", 3)
    database = sqlite()
    with database.begin() as connection:
        numbers = [book.begin(connection, move(f"collector:c{n}"), AT, budget=99) for n in range(5)]
        for number in numbers[:4]:
            assert number
            book.end(
                connection, number, AT + timedelta(seconds=5), "no answer" if number == numbers[3] else ""
            )
        assert [row.unit for row in book.last_moves(connection, 99)] == [f"collector:c{n}" for n in (2, 3, 4)]
        assert [row.unit for row in book.open_moves(connection)] == ["collector:c4"]
        (failed,) = (row for row in book.last_moves(connection, 99) if row.error)
        assert (failed.ended_at, failed.error) == (AT + timedelta(seconds=5), "no answer")
