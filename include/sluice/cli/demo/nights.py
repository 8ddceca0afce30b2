"""Let Airflow compute and reconcile each day of the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date, timedelta
from functools import partial
from typing import TYPE_CHECKING

from sluice.cli.demo.problems import TOPIC
from sluice.cli.phases import Say

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.stack.airflow_api import Airflow, Run

BACKFILL_SECONDS = 3600.0
LOOK_SECONDS = 5.0


def compute(settings: Settings, airflow: Airflow, say: Say) -> list[str]:
    """Backfill nightly_batch over the days of the log's lines; return what failed.

    It also waits for the reconciliation of these days.
    """
    from sluice.storage.days import Days
    from sluice.storage.postgres import engine

    book = Days(engine(settings), TOPIC)
    days = book.with_lines()
    if not days:
        return ["no line of the log has an event time: see the table dead_letters"]

    def progress() -> None:
        entries = [entry for entry in map(book.get, days) if entry]
        published = sum(entry.published_cut == entry.cut for entry in entries)
        say(f"{len(entries)} of {len(days)} days computed, {published} reconciled and published")

    batches: list[Run] = []
    for first, last in stretches(days):
        number = airflow.backfill("nightly_batch", first, last)
        batches += patiently(partial(airflow.wait_backfill, number), progress)
    done = [run for run in batches if run.state == "success"]
    reconciled = patiently(partial(airflow.wait_downstream, "reconcile", done), progress)
    progress()
    failures = [f"{r.dag} {r.id}: {r.state}" for r in [*batches, *reconciled] if r.state != "success"]
    for day in days:
        entry = book.get(day)
        if entry is None or entry.published_cut != entry.cut:
            failures.append(f"{day} was not published: see the runs of reconcile, and the Data Docs")
    return failures


def patiently(wait: Callable[[float], list[Run]], progress: Callable[[], None]) -> list[Run]:
    """Wait for Airflow's runs, showing progress meanwhile."""
    from sluice.stack.airflow_api import AirflowTimeout

    deadline = time.monotonic() + BACKFILL_SECONDS
    while True:
        progress()
        try:
            return wait(LOOK_SECONDS)
        except AirflowTimeout:
            if time.monotonic() > deadline:
                raise


def stretches(days: list[date], longest: int = 50) -> list[tuple[date, date]]:
    """Sorted days as stretches (first, last) without a gap.

    A backfill runs for *each* day of its range. No stretch has more days than a page of Airflow's API has
    runs.
    """
    found: list[tuple[date, date]] = []
    for day in days:
        if found and day - found[-1][1] == timedelta(days=1) and (day - found[-1][0]).days < longest:
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return found
