"""A new task on the running platform is backfilled by the command line through Airflow."""

from __future__ import annotations

import datetime as dt

import pytest

from sluice.batch.backfill.published import note
from sluice.stack.airflow.rest_api import Airflow
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.days import Days
from sluice.tasks import parse_documents
from sluice.tasks.store import TaskStore
from sluice_lab.access_lines import access_lines
from sluice_lab.waiting import until
from tests.e2e.running import TIMEOUT_SECONDS, TOPIC, Platform, expected

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAY = dt.date(2025, 8, 1)
TASK = "born_late"
SECONDS = 600.0
NIGHT_SECONDS = 900.0
#: What each of the retention's other tasks says.
PRUNED = {
    "books": "alerts deleted",
    "airflow": "task logs deleted",
    "files": "pages of Data Docs deleted",
    "hdfs": "the namenode's journal is part of its image",
}


def statuses(platform: Platform) -> None:
    """Add a task that counts like `hits_by_status` from now on."""
    spec = {
        "name": TASK,
        "topic": TOPIC,
        "period": "1m",
        "dimensions": [{"name": "status", "extract": {"delimiter": " ", "index": 8}}],
        "metrics": ["count"],
    }
    TaskStore(engine(platform.settings)).apply(parse_documents([spec]), "test")


def test_a_new_task_is_filled_backwards_and_both_layers_agree(platform: Platform) -> None:
    platform.write(DAY, access_lines(DAY, 800))
    platform.drain()
    statuses(platform)
    store, book = TaskStore(engine(platform.settings)), Backfills(engine(platform.settings))
    task = store.get(TASK)
    # The speed layer takes the task up although no line comes.
    until(lambda: book.boundary(task.task_id, task.version) is not None, what="a first commit")
    assert platform.counted(TASK, DAY, "online").values == {}

    filled = platform.sluice("tasks", "backfill", TASK, "--from", str(DAY), "--to", str(DAY))
    assert filled.returncode == 0, filled.stderr
    assert "finished: 1 of 1 days" in filled.stdout
    assert platform.counted(TASK, DAY, "online").values == expected(platform.written[DAY])["hits_by_status"]

    # Lines of the same minutes from another front-end add to what was filled.
    platform.write(DAY, access_lines(DAY, 200, seed=1), host="web2")
    platform.drain()
    whole = expected(platform.written[DAY])["hits_by_status"]
    assert platform.counted(TASK, DAY, "online").values == whole

    with Airflow(platform.settings) as airflow:
        runs = airflow.wait_backfill(airflow.backfill("nightly_batch", DAY, DAY), NIGHT_SECONDS)
        assert {run.state for run in runs} == {"success"}
        reconciled = airflow.wait_downstream("reconcile", runs, NIGHT_SECONDS)
    assert {run.state for run in reconciled} == {"success"}
    assert platform.counted(TASK, DAY, "offline").values == whole
    assert DAY not in Days(engine(platform.settings), TOPIC).marked()
    assert "backfilled" in platform.sluice("tasks", "history", TASK).stdout
    assert "finished" in platform.sluice("tasks", "backfills", TASK).stdout


@pytest.mark.long
def test_days_that_were_published_and_filled_again_are_named_with_what_computes_them(
    platform: Platform,
) -> None:
    days = ("--from", str(DAY), "--to", str(DAY))
    filled = platform.sluice("tasks", "backfill", TASK, *days)
    assert filled.stdout.splitlines()[-1] == note([DAY])
    assert DAY in Days(engine(platform.settings), TOPIC).marked()
    computed = platform.sluice("nightly", *days)
    assert computed.returncode == 0, computed.stderr
    assert DAY not in Days(engine(platform.settings), TOPIC).marked()


def test_what_cannot_be_filled_is_refused(platform: Platform) -> None:
    unknown = platform.sluice("tasks", "backfill", "nosuch", "--from", str(DAY), "--to", str(DAY))
    assert unknown.returncode == 2
    backwards = platform.sluice("tasks", "backfill", TASK, "--from", "2025-08-02", "--to", "2025-08-01")
    assert backwards.returncode == 2
    assert "name the earlier day first" in backwards.stderr
    with Airflow(platform.settings) as airflow:
        run = airflow.trigger("task_backfill", {"backfill": 999_999_999})
        assert [each.state for each in airflow.wait_runs("task_backfill", [run], SECONDS)] == ["failed"]
        assert "there is no backfill 999999999" in airflow.task_log("task_backfill", run, "backfill")


def test_retention_leaves_young_days_alone(platform: Platform) -> None:
    before = platform.counted(TASK, DAY, "online").values
    with Airflow(platform.settings) as airflow:
        run = airflow.trigger("retention")
        assert [each.state for each in airflow.wait_runs("retention", [run], SECONDS)] == ["success"]
        assert f"dropped of {TOPIC}: 0 days, 0 results" in airflow.task_log("retention", run, "drop")
        for task, said in PRUNED.items():
            assert said in airflow.task_log("retention", run, task)
    assert platform.counted(TASK, DAY, "online").values == before
    TaskStore(engine(platform.settings)).delete(TASK, "test")
    platform.drain()
