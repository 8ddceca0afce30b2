"""Raises an alert when a task fails for good, and clears it when the task works again."""

from __future__ import annotations

import logging
from typing import Any

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
    from sluice.storage import alerts
    from sluice.storage.postgres import engine
    from sluice_airflow.connections import settings

    name = _name(context)
    try:
        alerts.sync(engine(settings()), SOURCE, {name: message} if message else {}, prefix=name)
    except Exception as error:  # the task's own outcome must not depend on it
        log.warning("the alert of %s cannot be written: %s", name, error)
