"""The Spark job that fills a task backwards."""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowFailException

from sluice_airflow.connections import settings
from sluice_airflow.spark_job import SparkJob


class TaskBackfill(SparkJob):
    """Carry out the backfill that the run's configuration names: ``{"backfill": 7}``.

    `sluice tasks backfill` writes the backfill down and triggers the run. If a try dies, the next one goes on
    with the days that are left; cleared runs do the same. The backfill says what went wrong.
    """

    def execute(self, context: Any) -> None:
        run, now = context["dag_run"], settings()
        number = backfill_of(run.conf)
        note_run(now, number, run.run_id)
        try:
            self.submit(context, now, str(number), ["--id", str(number)])
        except Exception as error:
            note_failure(now, number, f"{error}; see the log of run {run.run_id} of task_backfill in Airflow")
            raise


def backfill_of(conf: Any) -> int:
    """The number of the backfill. Raises AirflowFailException: another try would find the same."""
    number = (conf or {}).get("backfill")
    if not isinstance(number, int) or isinstance(number, bool):
        raise AirflowFailException(
            f"the configuration {conf or {}} names no backfill: ask for one by `sluice tasks backfill NAME "
            '--from DAY --to DAY`, or give the number of an existing one, {"backfill": 7}'
        )
    return number


def note_run(settings: Any, number: int, run_id: str) -> None:
    """Write the run on the backfill. Raises AirflowFailException if there is no such backfill."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.backfills import Backfills, UnknownBackfill

    book = Backfills(engine(settings))
    try:
        book.get(number)
    except UnknownBackfill as unknown:
        raise AirflowFailException(str(unknown)) from None
    book.set_run(number, run_id)


def note_failure(settings: Any, number: int, message: str) -> None:
    """Say on the backfill that it failed, where the job could not say it itself."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.backfills import Backfills

    book = Backfills(engine(settings))
    if not book.get(number).ended:
        book.set_failed(number, message[:1000])
