"""Waits for a rebuild that is due, and submits the Spark job that carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluice_airflow.connections import asettings, settings
from sluice_airflow.spark_job import SparkJob

POLL_SECONDS = 5.0


class RebuildDueTrigger(BaseTrigger):
    """Fires once a rebuild is due: one that somebody asked for, or of periods that were set aside."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__name__}", {}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        now = await asettings()
        while True:
            try:
                number = await asyncio.to_thread(due, now)
            except Exception as error:  # a database that restarts is no reason to give up the wait
                self.log.warning("not known whether a rebuild is due: %s", error)
                number = None
            if number is not None:
                yield TriggerEvent({"rebuild": number})
                return
            await asyncio.sleep(POLL_SECONDS)


class TopicRebuild(SparkJob):
    """Carry out the rebuild that is due, after a wait for it in the triggerer.

    If a try dies, the next one goes on with the days that are left. The rebuild says what went wrong.
    """

    def execute(self, context: Any) -> None:
        if due(settings()) is None:
            self.defer(trigger=RebuildDueTrigger(), method_name="count")
        self.count(context)

    def count(self, context: Any, event: dict[str, Any] | None = None) -> None:
        """Submit the job for the rebuild that is due by now."""
        now = settings()
        number = due(now)
        if number is None:
            self.log.info("no rebuild is due any more")
            return
        self.log.info("rebuild %d", number)
        try:
            self.submit(context, now, str(number), ["--id", str(number)])
        except Exception as error:
            run = context["dag_run"].run_id
            note_failed_try(now, number, f"{error}; see the log of run {run} of rebuild in Airflow")
            raise


def due(settings: Any) -> int | None:
    """The number of the rebuild that is due; None if there is none."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.rebuilds import Rebuilds

    return Rebuilds(engine(settings)).next(datetime.now(UTC))


def note_failed_try(settings: Any, number: int, message: str) -> None:
    """Say on the rebuild that a try failed, where the job could not say it itself."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.rebuilds import Rebuilds

    book = Rebuilds(engine(settings))
    if book.get(number).message is None:
        book.set_failed(number, message[:1000])
