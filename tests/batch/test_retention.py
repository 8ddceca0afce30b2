"""Retention drops what belongs to the dropped days, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.batch.backfill.day_count import point
from sluice.batch.retention import DroppedDays, TopicRetention, gone, result_rows
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.schema import partials_schema
from sluice.state.blocks import BlockId, pack
from sluice.storage.tables.epochs import column
from sluice.storage.tables.retention import Floor, LastLine
from tests.engine.samples import ALL_METRICS, BYTES, active, line, plan, records, spec

DAY = date(2015, 5, 17)
MS = 86_400_000


def at(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


def test_a_period_goes_with_the_last_of_its_days() -> None:
    start = at(DAY)
    assert gone(start, start + MS, {DAY + timedelta(days=1)})
    assert not gone(start, start + MS + 1, {DAY + timedelta(days=1)})
    assert not gone(start, start + 31 * MS, {DAY + timedelta(days=30)})
    assert gone(start, start + 31 * MS, {DAY + timedelta(days=31), DAY - timedelta(days=1)})


class BatchMeanwhile:
    """A topic's book: a batch commits the first line of a new day while an old one is marked."""

    def __init__(self) -> None:
        self.lines = [LastLine(DAY, 0, 5)]
        self.starts = [at(DAY)]

    def last_lines(self) -> list[LastLine]:
        return list(self.lines)

    def dropped(self) -> set[date]:
        return set()

    def mark_dropped(self, days: list[date]) -> list[date]:
        self.lines.append(LastLine(DAY + timedelta(days=9), 0, 99))
        self.starts.append(at(DAY + timedelta(days=9)))
        return days

    def versions(self) -> list[tuple[int, int]]:
        return [(1, 1)]

    def periods(self, task_id: int, version: int) -> list[int]:
        return self.starts


def test_a_day_that_begins_meanwhile_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = object.__new__(TopicRetention)
    made._book, made._tasks = BatchMeanwhile(), SimpleNamespace(version=lambda *_: active(spec())[0])
    made._days = SimpleNamespace(locked=lambda day: nullcontext())
    forgotten_recounts: list[Any] = []
    kept = at(DAY + timedelta(days=9))
    made._recounts = SimpleNamespace(
        expired=lambda: {(1, 1, at(DAY)), (1, 1, kept)},
        failed=lambda: {(2, 1, at(DAY)), (2, 1, kept)},
        forget=forgotten_recounts.extend,
    )
    dropped: list[int] = []
    monkeypatch.setattr(made, "_drop_periods", lambda task, starts, _: dropped.extend(starts) or (0, 0))
    forgotten: list[set[date]] = []
    monkeypatch.setattr(made, "_drop_finals", forgotten.append)
    monkeypatch.setattr(made, "_drop_partitions", lambda expired: 0)
    assert made._drop_days(Floor(1, {"0": 6}))[0] == [DAY]
    assert dropped == [at(DAY)]
    assert forgotten == [{DAY}]
    gone = [(1, 1, at(DAY)), (2, 1, at(DAY))]
    assert sorted(forgotten_recounts) == gone  # what no rebuild takes is off the set-aside list, too


class Cells:
    """The blocks of backfills in HBase."""

    def __init__(self, rows: dict[bytes, dict[bytes, bytes]]) -> None:
        self.rows = rows

    def get(
        self, table: str, rows: Sequence[bytes], columns: Sequence[str]
    ) -> dict[bytes, dict[bytes, bytes]]:
        return {row: self.rows[row] for row in rows}


def test_a_damaged_block_of_a_backfill_stops_nothing() -> None:
    counted = merge(count(records([line()]), plan(spec())).partials)
    period = (1, 1, int(counted.column("period_start")[0].as_py()))
    damaged, whole = (point(BlockId.of(period, 2, bucket), DAY, b"s:1", 1) for bucket in range(2))
    made: Any = object.__new__(TopicRetention)
    made._topic = "logs"
    rows = {damaged: b"no block", whole: pack(counted)}
    made._hbase = Cells({each.row.encode(): {b"s:1": data} for each, data in rows.items()})
    (found,) = made._filled([damaged, whole])
    assert found.equals(counted)


def test_the_rows_dropped_are_the_rows_that_were_written() -> None:
    by_client = spec(
        dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
        metrics=ALL_METRICS,
        measure=BYTES,
    )
    text = [line(client=client, size=size) for client, size in (("a_b", "1"), ("c%", "2"), ("c%", "-"))]
    (task,) = active(by_client)
    series = merge(count(records(text), plan(by_client)).partials)
    written = results(series, {(1, 1): task}).column("row").to_pylist()
    assert sorted(result_rows(task, series)) == sorted(written)
    assert list(result_rows(task, partials_schema().empty_table())) == []


class Rows:
    """State in memory: the rows of a scan, and what is deleted."""

    def __init__(self, rows: dict[bytes, list[bytes]]) -> None:
        self.rows = rows
        self.deleted: dict[bytes, Sequence[bytes]] = {}

    def scan(
        self, table: str, *, prefix: bytes, row_filter: str
    ) -> Iterator[tuple[bytes, dict[bytes, bytes]]]:
        for row, names in self.rows.items():
            if row.startswith(prefix):
                yield row, dict.fromkeys(names, b"")

    def delete(self, table: str, rows: Iterable[tuple[bytes, Sequence[bytes]]]) -> int:
        self.deleted |= dict(rows)
        return len(self.deleted)


def test_a_periods_columns_go_in_any_layout_and_newer_ones_stay() -> None:
    before, own, after = column(5, "theirs"), column(5, "mine"), column(6, "mine")
    rows = Rows({b"1v1/0/1/0": [before, own], b"1v1/0/2/1": [own, after], b"1v1/0/4/3": [after],
                 b"1v1/01/1/0": [own], b"1v11/0/1/0": [own]})  # fmt: skip
    made: Any = object.__new__(TopicRetention)
    made._hbase = rows
    assert made._drop_state((1, 1, 0), 5) == 2
    assert rows.deleted == {b"1v1/0/1/0": [before, own], b"1v1/0/2/1": [own]}


def test_a_run_says_what_it_dropped() -> None:
    some = DroppedDays("logs", [DAY, DAY + timedelta(days=3)], 10, 2, 1, 5, 0, 3)
    assert str(some).startswith("logs: 2 days (2015-05-17 to 2015-05-20), 10 results, 2 blocks, 1 partitions")
    assert str(DroppedDays("logs", [], 0, 0, 0, 0, 0, 0)).startswith("logs: 0 days, 0 results")
