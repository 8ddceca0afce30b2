"""Ask for a backfill: record it, and let Airflow run it."""

from __future__ import annotations

from datetime import date, timedelta

from sluice.runtime.days import today
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_expiry
from sluice.storage.tables.backfills import Backfill, Backfills, DaysDropped, days_between
from sluice.storage.tables.days import Days

DAG = "task_backfill"


class BadDays(ValueError):
    """Days that cannot be computed, filled or counted again."""

    @property
    def plain(self) -> str:
        """The same without the command's options."""
        return str(self).replace("--from ", "the day from ").replace("--to ", "the day to ")


def ask(settings: Settings, name: str, first: date, last: date, user: str) -> Backfill:
    """Record the backfill of these days of the task's current version, and let Airflow run it.

    Raises BadDays, DaysDropped, DaysExpired, UnknownTask, and what Airflow raises.
    """
    from sluice.stack.airflow.rest_api import Airflow
    from sluice.tasks.store import TaskStore

    database = engine(settings)
    task = TaskStore(database).get(name)
    check_days(first, last, today())
    days = Days(database, task.topic)
    if dropped := [day for day in days_between(first, last) if days.dropped(day)]:
        raise DaysDropped(dropped)
    archive_expiry.check(database, task.topic, days_between(first, last))
    book = Backfills(database)
    asked = book.request(
        task.task_id, task.version, topic=task.topic, first_day=first, last_day=last, user=user
    )
    try:
        with Airflow(settings, user) as airflow:
            book.set_run(asked.id, airflow.trigger(DAG, {"backfill": asked.id}))
    except Exception as error:
        book.set_failed(asked.id, f"it could not be started: {error}"[:1000])
        raise
    return asked


def check_days(first: date, last: date, today: date) -> None:
    """Check the range of days. Raises BadDays."""
    check_order(first, last)
    if last > today + timedelta(days=1):
        raise BadDays(f"--to {last} is in the future: there are no lines of that day")


def check_order(first: date | None, last: date | None) -> None:
    """Check that no range ends before it begins; None has no limit. Raises BadDays."""
    if first is not None and last is not None and first > last:
        raise BadDays(f"--from {first} is after --to {last}: name the earlier day first")
