"""The SQL tables at the endpoint: the reader's numbers, whatever a statement asks and whatever happens."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest

from sluice.results.layers import StoredLayers
from sluice.results.query import Query
from sluice.results.reader import read
from sluice.sql.metastore import STORED, keep
from sluice.sql.tables import of_task
from sluice.stack.memory import ProcessFamily
from sluice.storage.hbase import FINAL_BLOCK, FINALS, FINALS_FAMILY, HBase
from sluice.storage.hive import Hive, SqlFailed
from sluice.storage.tables.finals import FinalRange
from sluice_lab.waiting import until
from tests.sql.conftest import TABLES_SECONDS, tables
from tests.sql.site import DAYS, NAMES, Site

pytestmark = pytest.mark.stack

YESTERDAY, TODAY = DAYS[2], DAYS[3]


def reader(site: Site, name: str) -> list[dict[str, Any]]:
    """What `sluice results` reads of the task."""
    (answer,) = read(StoredLayers(site.settings), Query(tasks=(site.full_name(name),)))
    rows: list[dict[str, Any]] = answer.table().to_pylist()
    return rows


def shown(hive: Hive, statement: str) -> list[dict[str, Any]]:
    found = hive.query(statement)
    return [dict(zip(found.columns, row, strict=True)) for row in found.rows]


def key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in row.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_task_s_table_has_every_row_of_the_reader(site: Site, sql: Hive, name: str) -> None:
    wanted = [{**row, "period": f"{row['period']:%Y-%m-%d %H:%M:%S}"} for row in reader(site, name)]
    found = shown(sql, site.own(f"SELECT * FROM v_{name}"))
    found = [{k: str(v) if k == "period" else v for k, v in row.items()} for row in found]
    assert [*found[0]] == [*wanted[0]]
    assert {row["state"] for row in found} == {"final", "open"}
    assert sorted(found, key=key) == sorted(wanted, key=key)


def test_results_has_every_value_of_the_reader(site: Site, sql: Hive) -> None:
    task = site.full_name("bytes_by_path")
    wanted = {
        (f"{row['period']:%Y-%m-%d %H:%M:%S}", row["path"], name): (float(row[name]), row["state"])
        for row in reader(site, "bytes_by_path")
        for name in ("count", "sum", "avg", "min", "max", "missing")
        if row[name] is not None
    }
    statement = "SELECT period, dimensions['path'], metric, value, state FROM results WHERE task = %(task)s"
    rows = sql.query(statement, {"task": task}).rows
    assert {(str(period), path, name): (value, state) for period, path, name, value, state in rows} == wanted
    assert len(rows) == len(wanted)


def test_yesterday_s_final_and_today_s_live_numbers_are_awk_s(site: Site, sql: Hive) -> None:
    statement = (
        "SELECT date(period), status, sum(count), max(state) FROM v_hits_by_status "
        f"WHERE period >= DATE '{YESTERDAY}' GROUP BY 1, 2"
    )
    found = [[str(value) for value in row] for row in sql.query(site.own(statement)).rows]
    days = f"({YESTERDAY:%d}|{TODAY:%d})"
    counted = site.awk(
        f'$4 ~ /^\\[{days}\\/May/ {{n[substr($4, 2, 2) " " $9]++}} END {{for (s in n) print s, n[s]}}'
    )
    states = {f"{YESTERDAY:%d}": "final", f"{TODAY:%d}": "open"}
    assert sorted([row[0][-2:], *row[1:]] for row in found) == [[*row, states[row[0]]] for row in counted]


@contextmanager
def poisoned(site: Site, name: str, *, days: slice) -> Iterator[None]:
    """The final blocks of a task's days are gone: whoever reads them fails."""
    task = site.of(name)
    ranges: list[FinalRange] = [
        r for r in site.book.of_topic() if r.task_id == task.task_id and r.first_day in DAYS[days]
    ]
    rows = [block.row.encode() for r in ranges for block in r.blocks]
    assert rows
    with HBase.of(site.settings) as hbase:
        kept = hbase.get(FINALS, rows, [FINALS_FAMILY])
        hbase.delete(FINALS, ((row, [FINALS_FAMILY]) for row in rows))
        try:
            yield
        finally:
            hbase.put(FINALS, [(row, {FINAL_BLOCK: cells[FINAL_BLOCK]}) for row, cells in kept.items()])


#: Spark hands the session's settings on to some jobs and not to others; a process has one kind of them.
WAYS = 2
#: The main classes of the endpoint's processes.
JAVA = {"sluice.sql.Endpoint", "sluice.sql.Executor"}
#: Conditions that leave one day, and how many of its rows they let pass.
ONE_DAY = (
    f"date(period) = DATE '{YESTERDAY}'",
    f"period >= '{YESTERDAY}' AND period < '{TODAY}'",
    f"period BETWEEN TIMESTAMP '{YESTERDAY} 00:00:00' AND TIMESTAMP '{YESTERDAY} 23:59:59'",
    f"period >= DATE '{TODAY}' - INTERVAL 1 DAY AND period < DATE '{TODAY}'",
)


def cold(site: Site) -> None:
    """Publish again: no worker has the new blocks in memory."""
    site.publish_first(3)


@pytest.mark.parametrize("condition", ONE_DAY)
def test_a_statement_on_one_day_does_not_read_the_others(site: Site, sql: Hive, condition: str) -> None:
    cold(site)
    statement = site.own(f"SELECT sum(count) FROM v_hits_by_status WHERE {condition}")
    with poisoned(site, "hits_by_status", days=slice(0, 2)):
        found = sql.query(statement).scalar()
        with pytest.raises(SqlFailed, match="is not in HBase"):
            sql.query(site.own("SELECT sum(count) FROM v_hits_by_status"))
    assert found == sum(1 for line in site.lines if f"[{YESTERDAY:%d}/May".encode() in line)


def test_a_statement_on_one_task_does_not_read_the_others(site: Site, sql: Hive) -> None:
    cold(site)
    name = site.full_name("hits_by_client")
    conditions = (
        f"task = '{name}'",
        f"task IN ('{name}', 'nobody')",
        f"dimensions['client'] = '10.0.9.1' AND task = '{name}'",
    )
    with poisoned(site, "hits_by_status", days=slice(0, 3)):
        counts = [
            sql.query(f"SELECT count(*) FROM results WHERE {condition} AND version = 1").scalar()
            for condition in conditions
        ]
    assert counts[0] == counts[1] > counts[2] > 0


def test_conditions_hold_through_views_and_joins(site: Site, sql: Hive) -> None:
    cold(site)
    view, day = f"{site.topic}_view", f"DATE '{YESTERDAY}'"
    sql.query(site.own(f"CREATE VIEW {view} AS SELECT period, status, count AS hits FROM v_hits_by_status"))
    by_day = (
        f"SELECT hits, bytes FROM (SELECT date(period) AS day, sum(hits) AS hits FROM {view} GROUP BY 1) "
        "JOIN (SELECT date(period) AS day, sum(sum) AS bytes FROM v_bytes_by_path "
        f"WHERE date(period) = {day} GROUP BY 1) USING (day) WHERE day = {day}"
    )
    by_period = (
        f"SELECT count(*) FROM {view} LEFT JOIN v_bytes_by_path USING (period) WHERE date(period) = {day}"
    )
    try:
        with (
            poisoned(site, "hits_by_status", days=slice(0, 2)),
            poisoned(site, "bytes_by_path", days=slice(0, 2)),
        ):
            found = [str(int(value)) for value in sql.query(site.own(by_day)).rows[0]]
            assert sql.query(site.own(by_period)).scalar() > 0
    finally:
        sql.query(f"DROP VIEW {view}")
    of_day = f"$4 ~ /^\\[{YESTERDAY:%d}\\/May/"
    assert [found] == site.awk(f"{of_day} {{n++; b += $10}} END {{print n, b}}")


def test_two_scans_of_a_statement_keep_their_own_conditions(site: Site, sql: Hive) -> None:
    statement = (
        "SELECT a.n, b.n FROM (SELECT sum(count) AS n FROM v_hits_by_status WHERE status = '200') a "
        "CROSS JOIN (SELECT sum(count) AS n FROM v_hits_by_status WHERE status LIKE '4%') b"
    )
    found = [str(value) for value in sql.query(site.own(statement)).rows[0]]
    assert [found] == site.awk("$9 == 200 {a++} $9 ~ /^4/ {b++} END {print a, b}")


def test_rows_are_counted_without_any_column(site: Site, sql: Hive) -> None:
    assert sql.query(site.own("SELECT count(*) FROM v_hits_by_client")).scalar() == len(
        reader(site, "hits_by_client")
    )
    assert sql.query("SELECT count(*) FROM results WHERE task = 'nobody'").scalar() == 0


def test_tables_are_read_only_for_everyone(site: Site, sql: Hive) -> None:
    table = f"v_{site.full_name('hits_by_status')}"
    for statement in (
        f"INSERT INTO {table} SELECT * FROM {table}",
        f"DELETE FROM {table}",
        f"TRUNCATE TABLE {table}",
    ):
        with pytest.raises(SqlFailed):
            sql.query(statement)
    assert sql.query(f"SELECT count(*) FROM {table}").scalar() > 0


def test_sessions_share_the_python_processes(site: Site, sql: Hive) -> None:
    """A process that is forked from has one of the endpoint's as its parent; the forks end when they idle."""
    for _ in range(5):
        with Hive(site.settings) as another:
            another.query(site.own("SELECT count(*) FROM v_hits_by_status"))
    found = Counter(python_daemons(site))
    assert max(found.values()) <= WAYS
    modules = {module for _, module in found}
    assert {"pyspark.worker", "pyspark.sql.worker.data_source_pushdown_filters"} <= modules


def python_daemons(site: Site) -> Iterator[tuple[int, str]]:
    """Parent and module of each process from which Python processes of the endpoint or a task are forked."""
    for pid in ProcessFamily(site.settings).pids():
        with suppress(psutil.Error):  # it ended
            process = psutil.Process(pid)
            parent, words = process.parent(), process.cmdline()
            if parent is not None and JAVA & set(parent.cmdline()) and "-m" in words:
                yield parent.pid, words[-1]


def test_the_comment_says_what_a_task_counts(site: Site, sql: Hive) -> None:
    said = sql.query(site.own("DESCRIBE EXTENDED v_bytes_by_path")).rows
    comments = {row[0]: row[2] for row in said}
    assert comments["path"] == "dimension"
    name = site.full_name("bytes_by_path")
    wanted = f"Task {name}, version 1: {site.of('bytes_by_path').spec.description}"
    assert wanted in str(said)


def test_a_statement_while_days_are_published_has_each_series_once(site: Site, sql: Hive) -> None:
    """Statements run throughout; the days are published again and forgotten, and commits go on."""
    statement = site.own("SELECT period, status, count, state FROM v_hits_by_status")
    wanted = {(str(period), status): count for period, status, count, _ in sql.query(statement).rows}
    problems: list[object] = []
    seen: set[str] = set()
    stop = threading.Event()
    mine = site.partials.slice(0, 1)
    grows = f"{datetime.fromtimestamp(mine['period_start'][0].as_py() / 1000, UTC):%Y-%m-%d %H:%M:%S}"

    def run(make: Callable[[], Any]) -> None:
        while not stop.is_set():
            try:
                make()
            except Exception as error:  # in a thread of its own
                problems.append(error)
                return

    def ask() -> None:
        rows = hive.query(statement).rows
        seen.update(row[3] for row in rows if str(row[0]) < f"{TODAY}")
        found = {(str(period), status): count for period, status, count, _ in rows}
        if len(found) != len(rows) or found.keys() != wanted.keys():
            problems.append((len(rows), len(found)))
        problems.extend(k for k, n in found.items() if k[0] != grows and n != wanted[k])

    with Hive(site.settings) as hive:
        threads = [threading.Thread(target=run, args=(ask,))]
        for thread in threads:
            thread.start()
        end, rounds = time.monotonic() + 20, 0
        while (time.monotonic() < end or rounds <= 5 or not {"final", "open"} <= seen) and not problems:
            rounds += 1
            site.publish_first(3)
            site.commit(mine)
            if rounds % 3 == 0:
                site.book.forget(site.book.of_topic())
        stop.set()
        for thread in threads:
            thread.join(60)
    site.publish_first(3)
    assert not problems, problems[:3]
    assert rounds > 5
    assert {"final", "open"} <= seen <= {"final", "open", "superseded"}


def test_a_statement_while_its_table_is_replaced_finds_the_old_one_or_the_new_one(site: Site) -> None:
    """Two tables with different columns take turns, in a database of their own; statements run throughout."""
    name = f"v_{site.topic}_turns"
    task = site.of("bytes_by_path")
    fewer = task.spec.model_copy(update={"metrics": ("count", "sum")})
    turns = [of_task(each, name) for each in (task, replace(task, spec=fewer))]
    where = site.settings.hive.model_copy(update={"database": f"{site.topic}_turns"})
    settings = site.settings.model_copy(update={"hive": where})
    seen: Counter[object] = Counter()
    problems: list[object] = []
    stop = threading.Event()

    def run(statement: str) -> None:
        with Hive(settings) as hive:
            while not stop.is_set():
                try:
                    found = hive.query(statement)
                    seen[len(found.columns), *(found.rows[0] if found.rows else ())] += 1
                except Exception as error:  # in a thread of its own
                    problems.append(error)
                    return

    with Hive(settings) as hive:
        keep(hive, turns[:1])
        asked = (f"SELECT * FROM {name} WHERE 1 = 0", f"SELECT sum(count), sum(sum) FROM {name}")
        threads = [threading.Thread(target=run, args=(statement,)) for statement in asked]
        for thread in threads:
            thread.start()
        end, rounds = time.monotonic() + 30, 0
        while (time.monotonic() < end or rounds < 20 or len(seen) < 3) and not problems:
            rounds += 1
            assert keep(hive, [turns[rounds % 2]]) == [f"table {name} was replaced"]
        stop.set()
        for thread in threads:
            thread.join(60)
        for database in (where.database, where.database + STORED):
            hive.query(f"DROP DATABASE {database} CASCADE")
    assert not problems, problems[:3]
    assert rounds >= 20
    ((count, total),) = site.awk("{n++; b += $10} END {print n, b}")
    assert seen.keys() == {(9,), (5,), (2, int(count), float(total))}


def test_a_table_follows_its_task(site: Site, sql: Hive) -> None:
    name = f"{site.topic}-more"  # a table's name has no -
    table = f"v_{site.topic}_more"
    spec = site.of("hits_by_status").spec
    site.tasks.apply([spec.model_copy(update={"name": name})], "test")
    try:
        until(lambda: table in tables(sql), poll=TABLES_SECONDS)
        site.tasks.apply([spec.model_copy(update={"name": name, "dimensions": ()})], "test")
        until(lambda: sql.columns(table) == {"period", "count", "state"}, poll=TABLES_SECONDS)
        sql.query(f"DROP VIEW {table}")
    finally:
        site.tasks.delete(name, "test")
    until(lambda: table not in tables(sql), poll=TABLES_SECONDS)
