"""`sluice nightly`: let Airflow compute days of event time, and follow what becomes of them."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.batch.backfill.ask import BadDays, check_order
from sluice.cli.asked_by import me
from sluice.cli.backfill import First, Last
from sluice.runtime import days

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.stack.airflow.answers import DagRun
    from sluice.stack.airflow.rest_api import Airflow

DAG, RECONCILE = "nightly_batch", "reconcile"
POLL_SECONDS = 2.0
#: Airflow allows one backfill of a DAG at a time, and says that one is over half a minute after its last run.
BUSY_SECONDS = 90.0
#: A run of `reconcile` waits up to six hours for the speed layer.
RECONCILED_SECONDS = 6 * 3600.0


class AirflowAway(RuntimeError):
    """Airflow cannot be asked."""


class NightPaused(RuntimeError):
    """The runs of a paused DAG never start."""

    def __init__(self, dag: str) -> None:
        super().__init__(f"{dag} is paused, so its runs would not start: unpause it in Airflow's pages first")


class NightFailed(RuntimeError):
    """Some days were not computed, or differ."""


def nightly(
    first: First,
    last: Last,
    wait: Annotated[
        bool, typer.Option(help="Wait until the days are computed and compared, and show the progress.")
    ] = True,
) -> None:
    """Compute days of event time again, from the archive, as nightly_batch does each night.

    Airflow runs a backfill of the DAG: a run for each day, two at a time. It overwrites the days, and
    `reconcile` compares and publishes them. Days may be computed any number of times. Ctrl-C only ends the
    waiting.

    Example:
      sluice nightly --from 2015-05-17 --to 2015-05-23

    Exit code 1 if a day could not be computed, or if the two layers differ.
    """
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice.stack.airflow.rest_api import Airflow

    settings = get_settings()
    check_over(first.date(), last.date(), days.today())
    check_airflow(settings)
    with Airflow(settings, me()) as airflow:
        for dag in (DAG, RECONCILE):
            if airflow.is_paused(dag):
                raise NightPaused(dag)
        began = dt.datetime.now(dt.UTC)
        try:
            days_asked = f"{first.date()} to {last.date()}"
            journal.note(settings, who=me(), what="days", name=days_asked, action="computed again")
            runs = compute(airflow, first.date(), last.date(), wait, typer.echo)
            if wait:
                airflow.wait_downstream(RECONCILE, computed(runs), RECONCILED_SECONDS)
        except KeyboardInterrupt:
            typer.echo(f"the runs that were started go on without you: see {DAG} in Airflow", err=True)
            raise
    if wait:
        judge(runs, outcomes(settings, began), typer.echo)


def check_over(first: dt.date, last: dt.date, today: dt.date) -> None:
    """Check the range of days. Raises BadDays."""
    check_order(first, last)
    if not days.is_over(last, today):
        raise BadDays(f"--to {last} is not over: {DAG} computes a day once it is over (UTC), until {today}")


def check_airflow(settings: Settings) -> None:
    """Raises AirflowAway at once if Airflow's API is not healthy; its client would wait for minutes."""
    from sluice.stack.entry import check

    if problem := check(settings, "airflow-api"):
        raise AirflowAway(f"Airflow does not answer ({problem}): `sluice status` says what runs")


def compute(
    airflow: Airflow, first: dt.date, last: dt.date, wait: bool, say: Callable[[str], None]
) -> list[DagRun]:
    """Start a run for each day, and follow them unless told not to; returns the runs that ended.

    The days go in stretches, because a page of Airflow's API has no more runs. Without waiting only the first
    stretch can be started, so more days are refused.
    """
    from sluice.stack.airflow.rest_api import BACKFILL_DAYS

    wanted = [first + dt.timedelta(days=n) for n in range((last - first).days + 1)]
    parts = days.stretches(wanted, BACKFILL_DAYS)
    if len(parts) > 1 and not wait:
        raise BadDays(f"{len(wanted)} days are too many without waiting: ask for {days.span(parts[0])} first")
    ended: list[DagRun] = []
    for part in parts:
        number = airflow.backfill(DAG, *part, timeout=BUSY_SECONDS)
        say(f"backfill {number} of {DAG}: {days.span(part)}")
        if wait:
            ended += follow(airflow, number, say)
    return ended


def follow(
    airflow: Airflow, number: int, say: Callable[[str], None], pause: float = POLL_SECONDS
) -> list[DagRun]:
    """Say each change of a run's state until all runs have ended; returns them."""
    said: dict[str, str] = {}
    while True:
        runs = airflow.backfill_runs(number)
        for run in sorted(runs, key=lambda run: str(run.day)):
            if said.get(run.id) != run.state:
                say(f"{run.day}: {run.state}")
                said[run.id] = run.state
        if runs and all(run.finished for run in runs):
            return runs
        time.sleep(pause)


def computed(runs: Sequence[DagRun]) -> list[DagRun]:
    """The runs that ended well; only these are reconciled."""
    return [run for run in runs if run.succeeded]


def outcomes(settings: Settings, since: dt.datetime) -> dict[tuple[dt.date, str], str]:
    """How each comparison since then ended, by day and topic."""
    from sluice.storage.postgres import engine
    from sluice.storage.tables import reconciled

    return reconciled.since(engine(settings), since)


def judge(runs: Sequence[DagRun], found: dict[tuple[dt.date, str], str], say: Callable[[str], None]) -> None:
    """Say how the days' comparisons ended. Raises NightFailed for what is not computed, or differs."""
    from sluice.storage.tables.reconciled import ComparisonOutcome

    asked = {run.day for run in runs}
    own = {key: outcome for key, outcome in sorted(found.items()) if key[0] in asked}
    for (day, topic), outcome in own.items():
        say(f"{day} {topic}: {outcome}")
    failed = [f"{run.day} was not computed: see run {run.id}" for run in runs if not run.succeeded]
    failed += [
        f"{day} {topic} differs: `sluice status` says how"
        for (day, topic), outcome in own.items()
        if outcome == ComparisonOutcome.DIFFERS
    ]
    if failed:
        raise NightFailed("; ".join(failed))
    if not own:
        say("nothing was compared: no line of these days is archived")
