"""`sluice tasks backfill`: count the lines that came before a task."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.batch.backfill.ask import DAG, ask
from sluice.batch.backfill.published import note, superseded
from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.storage.tables.backfills import Backfill, Backfills

POLL_SECONDS = 1.0
# Airflow is asked only now and then, to notice a run that died without recording its failure.
AIRFLOW_SECONDS = 15.0


class BackfillFailed(RuntimeError):
    """The backfill ended without having filled its days."""

    def __init__(self, backfill: Backfill, message: str) -> None:
        super().__init__(
            f"backfill {backfill.id} failed after {backfill.done_days} of {len(backfill.days)} days: "
            f"{message}. When the cause is fixed, clear its run of {DAG} in Airflow, or ask for the days "
            "again"
        )


First = Annotated[
    dt.datetime,
    typer.Option("--from", formats=["%Y-%m-%d"], metavar="DAY", help="The first day of event time (UTC)."),
]
Last = Annotated[
    dt.datetime, typer.Option("--to", formats=["%Y-%m-%d"], metavar="DAY", help="The last day, included.")
]


def backfill(
    name: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    first: First,
    last: Last,
    wait: Annotated[bool, typer.Option(help="Wait until it ends, and show its progress.")] = True,
) -> None:
    """Fill a task backwards: count the archived lines that came before its first commit.

    Airflow runs it, so Ctrl-C only ends the waiting. Days that are filled already are filled again, with the
    same results. Only the task's current version is filled. At the end it names the filled days whose
    published results are superseded, and the command that computes them again.

    Example:
      sluice tasks backfill hits_by_status --from 2015-05-17 --to 2015-05-20
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.backfills import Backfills

    settings = get_settings()
    book = Backfills(engine(settings))
    asked = ask(settings, name, first.date(), last.date(), me())
    typer.echo(f"{name} ({asked.label}): backfill {asked.id} of {len(asked.days)} days was started")
    if not wait:
        typer.echo(f"its progress: the run of {DAG} in Airflow, and `sluice tasks backfills`")
        return
    try:
        filled = follow(book, asked.id, lambda: _ended_in_airflow(settings, book, asked.id), typer.echo)
    except KeyboardInterrupt:
        typer.echo(f"backfill {asked.id} goes on without you: see {DAG} in Airflow", err=True)
        raise
    if told := note(superseded(book.engine, [filled])):
        typer.echo(told)


def backfills(
    name: Annotated[str, typer.Argument(metavar="TASK", help="The task's name.")],
    style: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
) -> None:
    """List the backfills of a task's current version: days, progress, and why one failed.

    Example:
      sluice tasks backfills hits_by_status
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.backfills import Backfills
    from sluice.tasks.store import TaskStore

    database = engine(get_settings())
    task = TaskStore(database).get(name)
    rows = [
        (
            each.id,
            each.label,
            each.first_day,
            each.last_day,
            each.state,
            f"{each.done_days} of {len(each.days)}",
            each.requested_at.astimezone(dt.UTC).replace(microsecond=0),
            each.requested_by,
            each.message or "",
        )
        for each in Backfills(database).of_version(task.task_id, task.version)
    ]
    write(("id", "task", "from", "to", "state", "days", "asked", "by", "message"), rows, style)


def follow(
    book: Backfills,
    number: int,
    ended: Callable[[], str | None],
    say: Callable[[str], None],
    pause: float = POLL_SECONDS,
) -> Backfill:
    """Report the backfill's progress until it ends; return its last state.

    `ended` returns how the run in Airflow ended, None while it goes on. Raises BackfillFailed.
    """
    from sluice.storage.tables.backfills import BackfillState

    said, look = "", time.monotonic() + AIRFLOW_SECONDS
    while True:
        now = book.get(number)
        line = f"{now.state}: {now.done_days} of {len(now.days)} days"
        if now.state == BackfillState.FAILED:
            line += f" ({now.message}); Airflow tries again, or gives up"
        if line != said:
            say(line)
            said = line
        if now.state == BackfillState.FINISHED:
            return now
        # Airflow repeats a failed try: the backfill is over only when Airflow's run is.
        if time.monotonic() >= look or now.state == BackfillState.FAILED:
            look = time.monotonic() + AIRFLOW_SECONDS
            over = ended()
            now = book.get(number)
            if over is not None and now.state != BackfillState.FINISHED:
                raise BackfillFailed(now, now.message or f"its run in Airflow is {over}")
        time.sleep(pause)


def _ended_in_airflow(settings: Settings, book: Backfills, number: int) -> str | None:
    from sluice.stack.airflow.rest_api import Airflow

    run_id = book.get(number).run_id
    if run_id is None:
        return "missing"
    with Airflow(settings) as airflow:
        run = airflow.run(DAG, run_id)
    return run.state if run.finished else None
