"""Hive's rows as results: a day's as they stand, several days' merged from accumulators."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sluice.batch.day_results import result_rows
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.rowkey import RowKey
from sluice.results.compare import OFFLINE_RESULTS
from sluice.results.offline_results import DayResults, of_days, of_task
from sluice.results.periods import ALWAYS, within
from sluice.tasks import ActiveTask, TaskSpec
from tests.engine.samples import BYTES, line, plan, records, spec
from tests.quality.stores import StoredHive

METRICS = ["count", "sum", "avg", "unique", "stddev", "p50", "p95", "top3"]
NOON = datetime(2015, 5, 17, 12, tzinfo=UTC)
START = 1431820800000  # 2015-05-17


def task(period: str, metrics: list[str] = METRICS) -> TaskSpec:
    return spec(period=period, metrics=metrics, measure=BYTES)


def lines(day: int, number: int) -> list[bytes]:
    return [
        line(
            at=NOON + timedelta(days=day, seconds=n),
            status="200" if n % 3 else "404",
            size=str(n * 37 % 1009) if n % 11 else "-",
        )
        for n in range(number)
    ]


class Stored(StoredHive):
    """Hive as nightly runs fill it: with one task's results of each day's lines."""

    def __init__(self, of: TaskSpec, days: dict[date, list[bytes]]) -> None:
        self.task = ActiveTask(1, 1, of)
        super().__init__(
            {
                day.isoformat(): result_rows(
                    merge(count(records(some), plan(of)).partials), self.task
                ).to_pylist()
                for day, some in days.items()
            }
        )


def online(of: TaskSpec, some: list[bytes]) -> dict[bytes, dict[str, Any]]:
    table = results(merge(count(records(some), plan(of)).partials), {(1, 1): ActiveTask(1, 1, of)})
    return {row["row"]: row for row in table.to_pylist()}


def assert_same(found: pa.Table, wanted: dict[bytes, dict[str, Any]]) -> None:
    assert found.schema == OFFLINE_RESULTS
    rows = {row["row"]: row for row in found.to_pylist()}
    assert len(rows) == found.num_rows
    assert rows.keys() == wanted.keys()
    for key, row in rows.items():
        assert row["metric"] == wanted[key]["metric"]
        assert row["value"] == pytest.approx(wanted[key]["value"], rel=1e-12)
        assert (row["error"] or 0.0) == (wanted[key]["error"] or 0.0)
        if row["metric"] == "top3":
            assert row["text"] == wanted[key]["text"]
            assert json.loads(row["text"])


def test_a_days_results_are_read_as_they_stand() -> None:
    of, some = task("1h"), lines(0, 200)
    hive = Stored(of, {date(2015, 5, 17): some})
    day = DayResults(hive, "logs", date(2015, 5, 17))
    assert_same(day.of(hive.task, range(START, START + 86_400_000)), online(of, some))
    assert day.of(hive.task, range(0)).num_rows == 0
    assert day.of(ActiveTask(1, 2, of), range(START, START + 86_400_000)).num_rows == 0
    first = day.of(hive.task, range(START, START + 12 * 3_600_000 + 1))
    assert {RowKey.decode(row).period_start for row in first["row"].to_pylist()} == {START + 12 * 3_600_000}
    assert len(hive.queries) == 1


def test_a_day_without_results_has_none() -> None:
    of = task("1h")
    hive = Stored(of, {date(2015, 5, 17): []})
    assert (
        DayResults(hive, "logs", date(2015, 5, 17))
        .of(hive.task, ALWAYS)
        .equals(OFFLINE_RESULTS.empty_table())
    )


def test_a_period_of_several_days_is_merged_from_their_accumulators() -> None:
    of, days = task("7d"), {date(2015, 5, 17 + n): lines(n, 150 + n) for n in range(3)}
    hive = Stored(of, days)
    week = (START // 604_800_000) * 604_800_000
    found = of_days(hive, "logs", hive.task, {week: list(days)})
    assert_same(found, online(of, [each for some in days.values() for each in some]))
    assert of_days(hive, "logs", hive.task, {}).num_rows == 0


def test_a_whole_task_is_read_with_its_shared_periods_merged() -> None:
    of, days = task("36h"), {date(2015, 5, 15 + n): lines(n - 2, 40) for n in range(4)}
    hive = Stored(of, days)
    assert_same(of_task(hive, hive.task), online(of, [each for some in days.values() for each in some]))
    assert of_task(hive, hive.task, within(0, 1)).num_rows == 0


def test_only_what_the_metrics_need_is_fetched() -> None:
    of = spec(period="7d")
    hive = Stored(of, {date(2015, 5, 17): lines(0, 3), date(2015, 5, 18): lines(1, 3)})
    of_task(hive, hive.task)
    (merged,) = (sql for sql in hive.queries if "base64" in sql)
    assert merged.count("base64") == 1
    assert "accumulators['lines']" in merged


def test_days_written_before_there_were_texts_and_errors_are_read() -> None:
    of = task("1h", ["count", "sum"])
    hive = Stored(of, {date(2015, 5, 17): lines(0, 9)})
    for rows in hive.days.values():
        for row in rows:
            row |= {"texts": (), "errors": ()}
    assert set(of_task(hive, hive.task).column("error").to_pylist()) == {None}
