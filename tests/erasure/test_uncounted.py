"""The state of periods that a rebuild gave up is deleted, up to the rebuild's cut; no other is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.erasure import uncounted
from sluice.state.blocks import BlockId
from sluice.storage.tables import schema
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.epochs import column
from tests.storage.booked import DAY, database

__all__ = ["database"]  # a fixture

TOKEN = "0123456789abcdef"
OLD, NEW = column(7, TOKEN), column(8, TOKEN)


class StateTable:
    """HBase's `state`, in memory."""

    def __init__(self, *rows: bytes) -> None:
        self.rows = {row: {OLD, NEW} for row in rows}

    def scan(self, table: str, *, prefix: bytes, row_filter: str) -> Iterator[tuple[bytes, set[bytes]]]:
        return ((row, set(cells)) for row, cells in list(self.rows.items()) if row.startswith(prefix))

    def delete(self, table: str, rows: Any) -> None:
        assert table == "state"
        for row, names in rows:
            self.rows[row] -= set(names)


def test_only_what_was_counted_up_to_the_cut_goes(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uncounted, "engine", lambda settings: database)
    failed, other = (1, 1, 0), (1, 1, 60_000)
    rows = [BlockId.of(key, 1, 0).row.encode() for key in (failed, other)]
    filled = [f"b1v1/{DAY}/{key[2]}/1/0" for key in (failed, other)]
    with database.begin() as connection:
        for key, row in zip((failed, other), filled, strict=True):
            pointer = BackfillPointer(row, 1, 1, DAY, key[2], 1, 0, OLD.decode(), 9)
            connection.execute(sa.insert(schema.backfill_blocks).values(topic="logs", **asdict(pointer)))
            why = "it raises" if key == failed else None
            listed = {"topic": "logs", "task_id": 1, "version": 1, "period_start": key[2], "failed": why}
            listed |= {"switched": False, "expired": False}
            connection.execute(sa.insert(schema.recounts).values(listed))
    table: Any = StateTable(*rows, *(row.encode() for row in filled))
    settings: Any = SimpleNamespace()
    assert uncounted.delete_uncounted(settings, table, "logs", {failed, other}, 7) == {failed: "it raises"}
    assert table.rows == {
        rows[0]: {NEW},
        rows[1]: {OLD, NEW},
        filled[0].encode(): {NEW},
        filled[1].encode(): {OLD, NEW},
    }
    assert [each.period for each in Backfills(database).pointers([failed, other])] == [other]
    assert uncounted.delete_uncounted(settings, table, "logs", {other}, 9) == {}
