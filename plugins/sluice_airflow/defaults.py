"""What all of Sluice's DAGs have in common: retries, and an alert while a task has failed for good."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pendulum
from airflow.sdk import Asset

#: The source of the alerts.
SOURCE = "airflow"
log = logging.getLogger(__name__)


def alert(context: Any) -> None:
    """Raise the task's alert; Airflow calls this after the last try."""
    error = context.get("exception")
    reason = (str(error).splitlines() or [type(error).__name__])[0] if error else "it was stopped or lost"
    run = context["dag_run"].run_id
    _sync(context, f"{_name(context)} failed in run {run}: {reason[:500]}")


def clear(context: Any) -> None:
    """Clear the task's alert: the task ended well, or one that runs for ever has started again."""
    _sync(context, "")


def _name(context: Any) -> str:
    task = context["task_instance"]
    return f"{task.dag_id}.{task.task_id}"


def _sync(context: Any, message: str) -> None:
    from sluice.storage.postgres import engine
    from sluice.storage.tables import alerts
    from sluice_airflow.connections import settings

    name = _name(context)
    try:
        alerts.sync(engine(settings()), SOURCE, {name: message} if message else {}, prefix=name)
    except Exception as error:  # the task's own outcome must not depend on it
        log.warning("the alert of %s cannot be written: %s", name, error)


OWNER = "sluice"
TAG = "sluice"
# For the DAGs that run for ever: a failed claim or a crash loop is tried again, for ever, but not in a hurry.
FOR_EVER = {
    "owner": OWNER,
    "retries": 3,
    "retry_delay": timedelta(seconds=15),
    "on_failure_callback": alert,
    "on_execute_callback": clear,  # it never ends well, so the alert is cleared when it starts again
}
# For the batch: a daemon that restarts is back within a minute or two.
BATCH = {
    "owner": OWNER,
    "retries": 2,
    "retry_delay": timedelta(minutes=1),
    "on_failure_callback": alert,
    "on_success_callback": clear,
}
# A fixed day in the past; the for-ever DAGs start when they are unpaused.
START = pendulum.datetime(2024, 1, 1, tz="UTC")
# What the batch layer computed: an event for each run, with its days, their cut and their counts.
RESULTS = Asset(name="results", uri="sluice://results")
