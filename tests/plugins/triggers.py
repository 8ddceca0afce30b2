"""Runs a trigger as Airflow's triggerer does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest


def context(run_id: str = "r1", try_number: int = 1) -> Any:
    instance = SimpleNamespace(dag_id="d", task_id="t", run_id=run_id, try_number=try_number)
    return {"ti": instance}


def deferred_to(operator: Any, **where: Any) -> tuple[str, dict[str, Any]]:
    """Run the operator until it defers without a timeout; returns its trigger in its serialized form."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context(**where))
    assert deferred.value.timeout is None
    path, kwargs = deferred.value.trigger.serialize()
    return path, kwargs


async def watched(trigger: Any, script: Callable[[asyncio.Task[Any]], Awaitable[None]]) -> dict | None:
    """Run the trigger beside the script; returns the event if it fired before the script ended."""
    stream = trigger.run()
    task = asyncio.ensure_future(anext(stream))
    try:
        await script(task)
        return task.result().payload if task.done() else None
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
            await task
