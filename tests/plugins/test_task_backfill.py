"""The run of a backfill records its outcome on the backfill."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator


@pytest.fixture
def module(home: Any, connected: Any, monkeypatch: pytest.MonkeyPatch):
    from sluice_airflow import task_backfill

    told: list[tuple[str, int, str]] = []
    monkeypatch.setattr(task_backfill, "note_run", lambda _, number, run: told.append(("run", number, run)))
    monkeypatch.setattr(
        task_backfill, "note_failure", lambda _, number, why: told.append(("failed", number, why))
    )
    task_backfill.told = told
    return task_backfill


def context(**conf: Any) -> Any:
    return {"dag_run": SimpleNamespace(conf=conf, run_id="manual__1")}


def test_the_job_gets_the_number(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Any] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, _: submitted.append(self))
    module.TaskBackfill(task_id="t", conn_id="spark_default", job="backfill").execute(context(backfill=7))
    (operator,) = submitted
    assert operator.application.endswith("/jobs/backfill.py")
    assert operator.application_args == ["--id", "7"]
    assert operator.env_vars["SLUICE_INSTANCE"] == "test"
    assert module.told == [("run", 7, "manual__1")]


def test_a_job_that_died_without_a_word_is_noted(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def died(self: Any, _: Any) -> None:
        raise RuntimeError("Cannot execute: spark-submit. Error code is: 137")

    monkeypatch.setattr(SparkSubmitOperator, "execute", died)
    with pytest.raises(RuntimeError, match="137"):
        module.TaskBackfill(task_id="t", conn_id="spark_default", job="backfill").execute(context(backfill=7))
    assert module.told[-1][:2] == ("failed", 7)
    assert "137" in module.told[-1][2]
    assert "run manual__1" in module.told[-1][2]


@pytest.mark.parametrize("conf", [{}, {"backfill": "7"}, {"backfill": True}, {"backfill": None}])
def test_a_run_without_a_number_is_not_tried_again(module: Any, conf: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="sluice tasks backfill"):
        module.TaskBackfill(task_id="t", conn_id="spark_default", job="backfill").execute(context(**conf))
    assert module.told == []
