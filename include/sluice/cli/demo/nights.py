"""Let Airflow compute and reconcile each day of the log that is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from sluice.cli.demo.problems import TOPIC
from sluice.cli.demo.report import lines_by_day
from sluice.cli.output.phases import Say
from sluice.runtime.days import is_over, stretches

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.stack.airflow.answers import DagRun
    from sluice.stack.airflow.rest_api import Airflow

BACKFILL_SECONDS = 3600.0
LOOK_SECONDS = 5.0


@dataclass(frozen=True)
class Nights:
    """What became of the days of the log's lines."""

    failures: list[str]
    computed: list[date]
    #: Lines by day, of days that were not over (UTC) when the others were computed.
    to_come: dict[date, int]


def compute(settings: Settings, airflow: Airflow, today: date, say: Say) -> Nights:
    """Backfill nightly_batch over the log's days that are over, and wait for their comparison."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables.days import Days

    book = Days(engine(settings), TOPIC)
    found = book.with_lines()
    days = [day for day in found if is_over(day, today)]
    to_come = {day: book.online(day).lines for day in found if not is_over(day, today)}
    if not days:
        say("no day was computed")
        return Nights([nothing_over(to_come)], days, to_come)
    left_out = f"; not over, so left out: {lines_by_day(to_come)}" if to_come else ""

    def progress() -> None:
        entries = [entry for entry in map(book.get, days) if entry]
        published = sum(entry.published_cut == entry.cut for entry in entries)
        say(f"{len(entries)} of {len(days)} days computed, {published} reconciled and published{left_out}")

    runs = run_nights(airflow, days, progress)
    failures = [f"{r.dag} {r.id}: {r.state}" for r in runs if not r.succeeded]
    for day in days:
        entry = book.get(day)
        if entry is None or entry.published_cut != entry.cut:
            failures.append(f"{day} was not published: see the runs of reconcile, and the Data Docs")
    return Nights(failures, days, to_come)


def nothing_over(to_come: Mapping[date, int]) -> str:
    """Why there is nothing to compute."""
    if not to_come:
        return "no line of the log has an event time: see the table dead_letters"
    return (
        f"no day of the log is over ({lines_by_day(to_come)}), and nightly_batch computes a day once it is "
        "over (UTC): name a log with lines of earlier days"
    )


def run_nights(airflow: Airflow, days: list[date], progress: Callable[[], None]) -> list[DagRun]:
    """Backfill the days; returns the runs of nightly_batch and of reconcile, once all have ended."""
    from sluice.stack.airflow.rest_api import BACKFILL_DAYS

    batches: list[DagRun] = []
    for first, last in stretches(days, BACKFILL_DAYS):
        number = airflow.backfill("nightly_batch", first, last)
        batches += patiently(partial(airflow.wait_backfill, number), progress)
    done = [run for run in batches if run.succeeded]
    reconciled = patiently(partial(airflow.wait_downstream, "reconcile", done), progress)
    progress()
    return [*batches, *reconciled]


def patiently(wait: Callable[[float], list[DagRun]], progress: Callable[[], None]) -> list[DagRun]:
    """Wait for Airflow's runs, showing progress meanwhile."""
    from sluice.stack.airflow.answers import AirflowTimeout

    deadline = time.monotonic() + BACKFILL_SECONDS
    while True:
        progress()
        try:
            return wait(LOOK_SECONDS)
        except AirflowTimeout:
            if time.monotonic() > deadline:
                raise
