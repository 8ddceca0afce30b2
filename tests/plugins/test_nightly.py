"""The nightly batch: what it submits, and what happens to other topics if one fails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

RETRIES = 2


class Xcom(dict[str, Any]):
    """A task instance with the values that it keeps for others."""

    try_number = 1
    max_tries = RETRIES

    def xcom_push(self, key: str, value: Any) -> None:
        self[key] = value

    def xcom_pull(self, task_ids: str, key: str) -> Any:
        return self.get(key)


@pytest.fixture
def batch(home: Any, connected: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The operator for two topics; `computed` names those computed, `submitted` the arguments."""
    from sluice_airflow import nightly
    from sluice_airflow.defaults import RESULTS

    made = nightly.NightlyBatch(
        task_id="batch", job="nightly", asset=RESULTS, wait=timedelta(0), retries=RETRIES
    )
    made.submitted, made.computed, made.failure = [], ["logs", "-x"], None

    def submit(context: Any, settings: Any, of: str, arguments: list[str]) -> None:
        made.submitted = arguments
        if made.failure:
            raise made.failure

    def computed(settings: Any, topic: str, run_id: str) -> list[dict[str, Any]]:
        return [{"topic": topic, "day": "2015-05-17"}] if topic in made.computed else []

    monkeypatch.setattr(nightly, "topics_to_compute", lambda *_: ["logs", "-x"])
    monkeypatch.setattr(nightly, "computed", computed)
    monkeypatch.setattr(made, "submit", submit)
    return made


def context(batch: Any, attempt: int = 1) -> Any:
    ti = Xcom()
    ti.try_number = attempt
    run = SimpleNamespace(run_type="manual", conf={"day": "2015-05-17"}, run_id="manual__1")
    event = SimpleNamespace(extra=None)
    return {"dag_run": run, "ti": ti, "outlet_events": {batch.asset: event}, "data_interval_end": _now()}


def test_only_a_scheduled_night_looks_for_days_that_were_missed(batch: Any) -> None:
    from airflow.utils.types import DagRunType

    now = context(batch)
    batch.execute(now)
    assert "--missed" not in batch.submitted
    now["dag_run"].run_type = DagRunType.SCHEDULED
    now["data_interval_end"] = _now() - timedelta(hours=1)
    batch.execute(now)
    assert {"--marked", "--missed"} <= set(batch.submitted)


@pytest.mark.parametrize("topics", ["logs", [1], {"logs": 1}])
def test_topics_in_a_run_s_configuration_are_a_list(batch: Any, topics: Any) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    now = context(batch)
    now["dag_run"].conf["topics"] = topics
    with pytest.raises(AirflowFailException, match="is no list of names: write"):
        batch.execute(now)


def test_a_night_that_was_cleared_gets_all_its_tries_again(batch: Any) -> None:
    from airflow.sdk.exceptions import AirflowException

    batch.failure = AirflowException("exit status 1")
    cleared = context(batch, attempt=RETRIES + 2)
    cleared["ti"].max_tries = 2 * RETRIES + 1  # as Airflow sets it
    with pytest.raises(AirflowException, match="exit status 1"):
        batch.execute(cleared)


def _now() -> datetime:
    return datetime.now(UTC)


def test_a_topic_s_name_is_never_taken_for_an_option(batch: Any) -> None:
    now = context(batch)
    batch.execute(now)
    assert batch.submitted[:2] == ["--topic=logs", "--topic=-x"]
    assert [day["topic"] for day in now["outlet_events"][batch.asset].extra["days"]] == ["logs", "-x"]


def test_if_a_topic_fails_in_every_try_the_others_are_still_reconciled(batch: Any) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from sluice_airflow.nightly import every_topic

    batch.computed, batch.failure = ["logs"], AirflowException("exit status 1")
    for attempt in range(1, RETRIES + 1):
        with pytest.raises(AirflowException, match="exit status 1"):
            batch.execute(context(batch, attempt))
    last = context(batch, RETRIES + 1)
    batch.execute(last)
    assert [day["topic"] for day in last["outlet_events"][batch.asset].extra["days"]] == ["logs"]
    with pytest.raises(AirflowFailException, match="some topic was not computed"):
        every_topic(last["ti"])


def test_a_night_that_computed_nothing_fails(batch: Any) -> None:
    from airflow.sdk.exceptions import AirflowException

    batch.computed, batch.failure = [], AirflowException("exit status 1")
    with pytest.raises(AirflowException):
        batch.execute(context(batch, RETRIES + 1))


def test_a_night_of_every_topic_ends_well(batch: Any) -> None:
    from sluice_airflow.nightly import every_topic

    now = context(batch)
    batch.execute(now)
    every_topic(now["ti"])
