"""The DAG's task waits for a rebuild that is due, and submits the job for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from tests import loops


@pytest.fixture
def module(home: Any, connected: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from sluice_airflow import topic_rebuild

    monkeypatch.setattr(topic_rebuild, "POLL_SECONDS", 0.0)
    return topic_rebuild


def due(module: Any, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    left = list(answers)

    def answer(settings: Any) -> int | None:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(module, "due", answer)


def operator(module: Any) -> Any:
    return module.TopicRebuild(task_id="rebuild", conn_id="spark_default", job="rebuild")


CONTEXT: Any = {"dag_run": SimpleNamespace(conf={}, run_id="manual__1")}


def test_it_waits_in_the_triggerer_until_a_rebuild_is_due(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import TaskDeferred

    due(module, monkeypatch, None)
    with pytest.raises(TaskDeferred) as deferred:
        operator(module).execute(CONTEXT)
    path, kwargs = deferred.value.trigger.serialize()
    assert (path, kwargs) == ("sluice_airflow.topic_rebuild.RebuildDueTrigger", {})
    assert deferred.value.method_name == "count"
    due(module, monkeypatch, None, ConnectionError("PostgreSQL restarts"), None, 7)

    async def fired() -> Any:
        return await anext(module.RebuildDueTrigger().run())

    assert loops.run(fired()).payload == {"rebuild": 7}


def test_the_job_gets_the_number_of_the_rebuild_that_is_due(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[Any] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, _: submitted.append(self))
    due(module, monkeypatch, 7)
    operator(module).count(CONTEXT, {"rebuild": 7})
    assert submitted[0].application.endswith("/jobs/rebuild.py")
    assert submitted[0].application_args == ["--id", "7"]
    due(module, monkeypatch, None)
    operator(module).count(CONTEXT, {"rebuild": 7})
    assert len(submitted) == 1


def test_a_job_that_died_without_a_word_is_noted(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def died(self: Any, _: Any) -> None:
        raise RuntimeError("Cannot execute: spark-submit. Error code is: 137")

    told: list[tuple[int, str]] = []
    monkeypatch.setattr(SparkSubmitOperator, "execute", died)
    monkeypatch.setattr(module, "note_failed_try", lambda _, number, why: told.append((number, why)))
    due(module, monkeypatch, 7)
    with pytest.raises(RuntimeError, match="137"):
        operator(module).execute(CONTEXT)
    assert told[0][0] == 7
    assert "run manual__1 of rebuild" in told[0][1]
