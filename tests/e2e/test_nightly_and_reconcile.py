"""The nights after the faults: both layers agree, and a difference is found and named."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple

import pyarrow as pa
import pytest

from sluice.client import Client
from sluice.engine.rowkey import RowKey
from sluice.stack.airflow.answers import DagRun
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.users import Users
from sluice.storage.hbase import ONLINE, RESULTS, HBase
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables.days import Days
from sluice_lab.access_lines import access_line, access_lines
from sluice_lab.waiting import until
from tests.e2e.running import DAYS, TIMEOUT_SECONDS, TOPIC, Platform, expected
from tests.sql.conftest import TABLES_SECONDS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

NIGHT_SECONDS = 900.0
FIRST = DAYS[0]
DIFFERENT = DAYS[-1] + dt.timedelta(days=1)


class Planted(NamedTuple):
    """An online result that is one more than what was counted."""

    key: RowKey
    row: bytes
    cells: dict[bytes, bytes]  # as they were before


@pytest.fixture(scope="module")
def planted(platform: Platform) -> Planted:
    for day, host in zip(DAYS, ("web1", "web2", "web1"), strict=True):
        platform.write(day, access_lines(day, 200, seed=2), host)  # for a run without the faults
    platform.write(DIFFERENT, access_lines(DIFFERENT, 300))
    platform.drain()
    store = HBase.of(platform.settings)
    task = platform.counted("hits_by_status", DIFFERENT, "online").task
    row, cells = next(
        (row, cells)
        for row, cells in store.scan(RESULTS, prefix=f"{task.label}_".encode(), columns=[ONLINE])
        if moment(RowKey.decode(row)).date() == DIFFERENT
    )
    store.put(RESULTS, [(row, {ONLINE: str(int(cells[ONLINE]) + 1).encode()})])
    return Planted(RowKey.decode(row), row, cells)


@pytest.fixture(scope="module")
def reconciled(platform: Platform, planted: Planted) -> list[DagRun]:
    """The reconciliations after a backfill of the days of the faults and of one that differs.

    One run can cover several days.
    """
    with Airflow(platform.settings) as airflow:
        runs = airflow.wait_backfill(airflow.backfill("nightly_batch", FIRST, DIFFERENT), NIGHT_SECONDS)
        assert {run.state for run in runs} == {"success"}
        return airflow.wait_downstream("reconcile", runs, NIGHT_SECONDS)


def moment(key: RowKey) -> dt.datetime:
    return dt.datetime.fromtimestamp(key.period_start / 1000, dt.UTC)


@pytest.mark.usefixtures("reconciled")
def test_a_backfill_agrees_with_the_speed_layer(platform: Platform) -> None:
    """Every day of the faults is published: the one that differs holds up none of them."""
    book = Days(engine(platform.settings), TOPIC)
    for day in DAYS:
        for task, wanted in expected(platform.written[day]).items():
            assert platform.counted(task, day, "offline").values == wanted, (day, task)
            assert platform.counted(task, day, "published").values == wanted, (day, task)
        entry = book.get(day)
        assert entry is not None
        assert entry.published_cut == entry.cut


@pytest.mark.usefixtures("reconciled")
def test_one_sql_statement_shows_final_days_beside_the_live_one(platform: Platform) -> None:
    """By the numbers of the lines themselves: three days are published, and the fourth is not."""
    with Hive(platform.settings) as sql:
        until(lambda: sql.query("SHOW TABLES LIKE 'v_hits_by_status'").rows, poll=TABLES_SECONDS)
        rows = sql.query(
            "SELECT unix_millis(period), status, count, state FROM v_hits_by_status "
            f"WHERE period >= DATE '{FIRST}' AND period < DATE '{DIFFERENT}' + INTERVAL 1 DAY"
        ).rows
    wanted = shown(platform)
    assert {(start, status): (count, state) for start, status, count, state in rows} == wanted
    assert len(rows) == len(wanted)


@pytest.mark.usefixtures("reconciled")
def test_a_client_of_the_api_reads_the_same(platform: Platform) -> None:
    settings, name = platform.settings, "client-of-both-layers"
    password = Users(settings).add(name, "viewer")
    try:
        with Client(settings.airflow.url, name, password) as client:
            end = DIFFERENT + dt.timedelta(days=1)
            found = client.results("hits_by_status", since=FIRST, until=end)
    finally:
        Users(settings).remove(name)
    starts = found.column("period").cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
    rows = zip(
        starts, *(found.column(each).to_pylist() for each in ("status", "count", "state")), strict=True
    )
    assert [((start, status), (count, state)) for start, status, count, state in rows] == sorted(
        shown(platform).items()
    )


def shown(platform: Platform) -> dict[tuple[int, str], tuple[int, str]]:
    """The count and the state of each period (ms) and status, by the lines that were written."""
    return {
        (start, status): (found["count"], "open" if day == DIFFERENT else "final")
        for day in (*DAYS, DIFFERENT)
        for (start, (status,)), found in expected(platform.written[day])["hits_by_status"].items()
    }


def test_a_planted_difference_is_found_and_named(
    platform: Platform, planted: Planted, reconciled: list[DagRun]
) -> None:
    failed = next(run for run in reconciled if run.state == "failed")
    with Airflow(platform.settings) as airflow:
        log = airflow.task_log("reconcile", failed.id, "reconcile")
    period = moment(planted.key).strftime("%Y-%m-%dT%H:%M")
    for named in ("hits_by_status", period, f"status={planted.key.dimensions[0][1]!r}"):
        assert named in log, named
    book = Days(engine(platform.settings), TOPIC)
    assert book.get(DIFFERENT).published_cut is None  # type: ignore[union-attr]

    HBase.of(platform.settings).put(RESULTS, [(planted.row, planted.cells)])
    with Airflow(platform.settings) as airflow:
        again = airflow.trigger("reconcile", {"days": [{"topic": TOPIC, "day": DIFFERENT.isoformat()}]})
        assert [run.state for run in airflow.wait_runs("reconcile", [again], NIGHT_SECONDS)] == ["success"]
    assert book.get(DIFFERENT).published_cut is not None  # type: ignore[union-attr]


def test_a_late_line_marks_its_day_and_the_next_night_counts_it(platform: Platform) -> None:
    late = access_line(
        dt.datetime.combine(FIRST, dt.time(23, 59, 59), dt.UTC),
        client="10.8.8.8", path="/late", status="200", size="11",
    )  # fmt: skip
    platform.note(FIRST, [late])
    platform.append(DAYS[-1] + dt.timedelta(days=7), (late + "\n").encode())
    platform.drain()
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
        assert platform.counted(task, FIRST, "published").values == wanted
