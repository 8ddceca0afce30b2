"""Results of series that nothing counts any more are deleted, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.rowkey import RowKey
from sluice.erasure import vanished
from sluice.runtime.days import begin_ms
from sluice.storage.hbase import FINAL, FINAL_ERROR, RESULT_FAMILY
from sluice.tasks.spec import ActiveTask, TaskSpec

DAY = date(2015, 5, 17)
HOUR = 3_600_000
SPEC = {"name": "hits", "topic": "logs", "period": "1h", "metrics": ["count"]}
TASK = ActiveTask(
    3,
    2,
    TaskSpec.model_validate({**SPEC, "dimensions": [{"name": "client", "extract": {"field": "client"}}]}),
)
COMMITTED = datetime(2015, 6, 1, tzinfo=UTC)


def row(client: str, start: int) -> bytes:
    return RowKey(3, 2, (("client", client),), "count", start).encode()


class Table:
    """HBase's `results`, in memory; remembers what was deleted."""

    def __init__(self, rows: Sequence[bytes]) -> None:
        self.rows, self.deleted = rows, list[tuple[bytes, list[bytes], int | None]]()

    def scan(
        self, table: str, *, prefix: bytes, row_filter: str
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        assert (table, prefix) == ("results", b"3v2_")
        assert row_filter.endswith("AND KeyOnlyFilter ()")
        return ((each, {}) for each in self.rows)

    def delete(self, table: str, rows: Any, *, timestamp: int | None = None) -> int:
        self.deleted += [(each, list(columns), timestamp) for each, columns in rows]
        return len(self.deleted)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[str]]:
    """The clients that the state has, by period."""
    found: dict[int, list[str]] = {}

    def series(settings: Any, hbase: Any, topic: str, keys: Any) -> Iterator[pa.Table]:
        rows = [(client, start) for *_, start in keys for client in found.get(start, ())]
        yield pa.table({"key": [each for each, _ in rows], "period_start": [start for _, start in rows]})

    head = SimpleNamespace(committed_at=COMMITTED)
    monkeypatch.setattr(vanished, "_series", series)
    monkeypatch.setattr(vanished, "engine", lambda settings: None)
    monkeypatch.setattr(vanished, "ranges_of", lambda database, topic: {(3, 2): []})
    monkeypatch.setattr(vanished, "TaskStore", lambda _: SimpleNamespace(version=lambda *_: TASK))
    monkeypatch.setattr(vanished, "CommitLog", lambda *_: SimpleNamespace(head=lambda: head))
    waiting = {(3, 2, begin_ms(DAY) + 2 * HOUR)}
    monkeypatch.setattr(vanished, "Recounts", lambda *_: SimpleNamespace(of=lambda keys: waiting & set(keys)))
    return found


def test_what_the_state_has_stays_and_so_does_what_is_of_other_days(stored: dict[int, list[str]]) -> None:
    at = begin_ms(DAY)
    stored[at] = ["10.0.0.2"]
    rows = [
        row("10.0.0.1", at),
        row("10.0.0.2", at),
        row("10.0.0.1", at + HOUR),  # the only series of its period
        row("10.0.0.1", at + 2 * HOUR),  # it is being counted again
        row("10.0.0.1", at - HOUR),
        b"3v2_no_row_of_results",
    ]
    table: Any = Table(rows)
    assert vanished.delete_vanished(SimpleNamespace(), table, "logs", [DAY]) == 2  # type: ignore[arg-type]
    stamp = round(COMMITTED.timestamp() * 1000) + 1
    gone = [rows[0], rows[2]]
    assert table.deleted == [
        *((each, [RESULT_FAMILY], stamp) for each in gone),
        *((each, [FINAL, FINAL_ERROR], None) for each in gone),
    ]
    assert vanished.delete_vanished(SimpleNamespace(), table, "logs", []) == 0  # type: ignore[arg-type]


def test_a_period_that_could_not_be_counted_again_keeps_no_results(stored: dict[int, list[str]]) -> None:
    at = begin_ms(DAY) + 2 * HOUR
    stored[at] = ["10.0.0.2"]  # of lines that came since: nobody reads them
    rows = [row("10.0.0.1", at), row("10.0.0.2", at)]
    table, settings = Table(rows), SimpleNamespace()
    given: Any = (settings, table, "logs", [DAY])
    assert vanished.delete_vanished(*given) == 0
    assert vanished.delete_vanished(*given, uncounted={(3, 2, at): "it raises"}) == 2
    assert {each for each, *_ in table.deleted} == set(rows)
