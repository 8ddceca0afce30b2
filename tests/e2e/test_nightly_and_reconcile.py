"""The nights after the faults: both layers agree on every day, and a difference is found and named."""

from __future__ import annotations

import datetime as dt

import pytest

from sluice.stack.airflow_api import Airflow, Run
from sluice.statistics.rowkey import RowKey
from sluice.storage.days import Days
from sluice.storage.hbase import ONLINE, RESULTS, HBase
from sluice.storage.postgres import engine
from tests.e2e.running import DAYS, TOPIC, Platform, access_line, access_lines, expected

pytestmark = pytest.mark.e2e

NIGHT_SECONDS = 900.0
FIRST = DAYS[0]


def compute(platform: Platform, first: dt.date, last: dt.date) -> list[Run]:
    """Backfill the days through Airflow, and the runs of `reconcile` that this led to."""
    with Airflow(platform.settings) as airflow:
        runs = airflow.wait_backfill(airflow.backfill("nightly_batch", first, last), NIGHT_SECONDS)
        assert {run.state for run in runs} == {"success"}
        return airflow.wait_downstream("reconcile", runs, NIGHT_SECONDS)


def test_a_backfill_agrees_with_the_speed_layer(platform: Platform) -> None:
    """All the days on which parts were killed (and some lines more, for a run without the faults)."""
    for day, host in zip(DAYS, ("web1", "web2", "web1"), strict=True):
        platform.write(day, access_lines(day, 200, seed=2), host)
    platform.settle()
    assert {run.state for run in compute(platform, DAYS[0], DAYS[-1])} == {"success"}
    book = Days(engine(platform.settings), TOPIC)
    for day in DAYS:
        for task, wanted in expected(platform.written[day]).items():
            assert platform.counted(task, day, "offline").values == wanted, (day, task)
            assert platform.counted(task, day, "merged").values == wanted, (day, task)
        entry = book.get(day)
        assert entry is not None
        assert entry.published_cut == entry.cut


def test_a_late_line_marks_its_day_and_the_next_night_counts_it(platform: Platform) -> None:
    late = access_line(
        dt.datetime.combine(FIRST, dt.time(23, 59, 59), dt.UTC),
        client="10.8.8.8", path="/late", status="200", size="11",
    )  # fmt: skip
    platform.written[FIRST].append(late)
    platform.append(DAYS[-1] + dt.timedelta(days=7), (late + "\n").encode())
    platform.settle()
    book = Days(engine(platform.settings), TOPIC)
    assert FIRST in book.marked()
    with Airflow(platform.settings) as airflow:
        run = airflow.trigger("nightly_batch")
        finished = airflow.wait_runs("nightly_batch", [run], NIGHT_SECONDS)
        assert [each.state for each in finished] == ["success"]
        reconciled = airflow.wait_downstream("reconcile", finished, NIGHT_SECONDS)
    assert {each.state for each in reconciled} == {"success"}
    assert FIRST not in book.marked()
    for task, wanted in expected(platform.written[FIRST]).items():
        assert platform.counted(task, FIRST, "offline").values == wanted
        assert platform.counted(task, FIRST, "merged").values == wanted


def test_a_planted_difference_is_found_and_named(platform: Platform) -> None:
    day = DAYS[-1] + dt.timedelta(days=1)
    platform.write(day, access_lines(day, 300))
    platform.settle()
    store = HBase.of(platform.settings)
    task = platform.counted("hits_by_status", day, "online").task
    row, cells = next(
        (row, cells)
        for row, cells in store.scan(RESULTS, prefix=f"{task.label}_".encode(), columns=[ONLINE])
        if dt.datetime.fromtimestamp(RowKey.decode(row).period_start / 1000, dt.UTC).date() == day
    )
    key = RowKey.decode(row)
    store.put(RESULTS, [(row, {ONLINE: str(int(cells[ONLINE]) + 1).encode()})])

    runs = compute(platform, day, day)
    assert [run.state for run in runs] == ["failed"]
    with Airflow(platform.settings) as airflow:
        log = airflow.task_log("reconcile", runs[0].id, "reconcile")
    period = dt.datetime.fromtimestamp(key.period_start / 1000, dt.UTC)
    for named in ("hits_by_status", period.strftime("%Y-%m-%dT%H:%M"), f"status={key.dimensions[0][1]!r}"):
        assert named in log, named
    assert Days(engine(platform.settings), TOPIC).get(day).published_cut is None  # type: ignore[union-attr]

    store.put(RESULTS, [(row, cells)])
    with Airflow(platform.settings) as airflow:
        again = airflow.trigger("reconcile", {"days": [{"topic": TOPIC, "day": day.isoformat()}]})
        assert [run.state for run in airflow.wait_runs("reconcile", [again], NIGHT_SECONDS)] == ["success"]
