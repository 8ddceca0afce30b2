"""Airflow's own database and logs, cleaned by its own command, on a database of SQLite."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.stack.airflow import cleaning
from sluice.stack.daemons.airflow import AIRFLOW

NOW = datetime(2026, 1, 20, tzinfo=UTC)
BEFORE = NOW - timedelta(days=60)
OLD, YOUNG = NOW - timedelta(days=90), NOW - timedelta(days=3)


def put(database: sqlite3.Connection, table: str, **values: object) -> None:
    """A row with these values, and something in every other column that must have a value."""
    row = dict(values)
    for _, name, kind, required, default, key in database.execute(f"PRAGMA table_info({table})"):
        if name not in row and required and default is None and not (key and kind == "INTEGER"):
            row[name] = 0 if kind in ("INTEGER", "BOOLEAN", "FLOAT") else f"{name}-{len(row)}"
    names = ", ".join(f'"{name}"' for name in row)
    marks = ", ".join("?" for _ in row)
    database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def run_of(database: sqlite3.Connection, dag: str, at: datetime, state: str) -> None:
    name, moment = f"{dag} {at:%m-%d}", at.strftime("%Y-%m-%d %H:%M:%S.%f")
    put(database, "dag_run", dag_id=dag, run_id=name, start_date=moment, state=state, run_type="scheduled",
        run_after=moment)  # fmt: skip
    put(database, "task_instance", id=name, dag_id=dag, run_id=name, task_id="t", start_date=moment,
        state=state, map_index=-1)  # fmt: skip


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Where a migrated database of Airflow's is."""
    home = tmp_path_factory.mktemp("airflow")
    own = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    subprocess.run([AIRFLOW, "db", "migrate"], env=own, check=True, capture_output=True)
    return own


@pytest.mark.slow
def test_old_runs_go_and_what_runs_stays(variables: dict[str, str]) -> None:
    """Airflow's command itself, with the arguments of the DAG's task: it asks nothing."""
    database = sqlite3.connect(Path(variables["AIRFLOW_HOME"]) / "airflow.db")
    with database:
        for at in (OLD, OLD + timedelta(days=1), YOUNG):
            run_of(database, "nightly_batch", at, "success")
        run_of(database, "retention", OLD, "success")  # the last one, of a paused DAG
        run_of(database, "speed_layer", OLD - timedelta(days=9), "failed")
        run_of(database, "speed_layer", OLD, "running")
        for at in (OLD, YOUNG):
            put(database, "log", dttm=at.strftime("%Y-%m-%d %H:%M:%S.%f"), event="e")
    for tables, spared in ((cleaning.RUNS, ["speed_layer"]), (cleaning.EVENTS, [])):
        cleaning._run(cleaning.arguments(tables, BEFORE, spared), variables)
    runs = [name for (name,) in database.execute("SELECT run_id FROM dag_run ORDER BY run_id")]
    tasks = [name for (name,) in database.execute("SELECT id FROM task_instance ORDER BY id")]
    kept = ["nightly_batch 01-17", "retention 10-22", "speed_layer 10-13", "speed_layer 10-22"]
    assert runs == kept
    assert tasks == [name for name in kept if name != "retention 10-22"]
    assert database.execute("SELECT count(*) FROM log WHERE event = 'e'").fetchone() == (1,)
    left = "SELECT count(*) FROM sqlite_master WHERE name LIKE '\\_airflow\\_deleted%' ESCAPE '\\'"
    assert database.execute(left).fetchone() == (0,)  # no copies
    database.close()


@pytest.mark.slow
def test_a_table_that_was_not_cleaned_is_named(variables: dict[str, str]) -> None:
    database = sqlite3.connect(Path(variables["AIRFLOW_HOME"]) / "airflow.db")
    with database:
        database.execute("ALTER TABLE xcom RENAME COLUMN timestamp TO at")
    try:
        with pytest.raises(cleaning.NotCleaned, match=r"failed \(xcom\): .* `sluice status`"):
            cleaning._run(cleaning.arguments(cleaning.RUNS, BEFORE, ["speed_layer"]), variables)
    finally:
        with database:
            database.execute("ALTER TABLE xcom RENAME COLUMN at TO timestamp")
        database.close()


def test_logs_that_nobody_writes_go_and_those_of_running_tasks_stay(tmp_path: Path) -> None:
    files = {
        "dag_id=nightly_batch/run_id=a/task_id=batch/attempt=1.log": OLD,
        "dag_id=nightly_batch/run_id=b/task_id=batch/attempt=1.log": YOUNG,
        "dag_id=speed_layer/run_id=a/task_id=speed_layer/attempt=1.log.trigger.7.log": OLD,
        "dag_processor/2025-10-22/dags-folder/archive.py.log": OLD,
    }
    for name, at in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text("text")
        for each in (path, *list(path.parents)[: len(Path(name).parents) - 1]):
            os.utime(each, (at.timestamp(), at.timestamp()))
    (tmp_path / "dag_id=nightly_batch" / "run_id=c").mkdir()  # of a task that starts at this moment
    assert cleaning.delete_logs(tmp_path, BEFORE, ["speed_layer"]) == 2
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert left == [
        "dag_id=nightly_batch/run_id=b/task_id=batch/attempt=1.log",
        "dag_id=speed_layer/run_id=a/task_id=speed_layer/attempt=1.log.trigger.7.log",
    ]
    assert not (tmp_path / "dag_id=nightly_batch" / "run_id=a").exists()
    assert not (tmp_path / "dag_processor").exists()
    assert (tmp_path / "dag_id=nightly_batch" / "run_id=c").exists()
