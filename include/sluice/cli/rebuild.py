"""`sluice rebuild`: count periods again from the archive."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.batch.rebuild.ask import DAG, WantedRebuild, ask, plan
from sluice.cli.asked_by import me

if TYPE_CHECKING:
    import sqlalchemy as sa

    from sluice.runtime.settings import Settings
    from sluice.storage.tables.rebuilds import Rebuild, Rebuilds

POLL_SECONDS = 1.0
#: A rebuild that waits longer than this has no DAG that takes it up: it polls every few seconds.
TAKEN_SECONDS = 60.0


class RebuildFailed(RuntimeError):
    """The last try of a rebuild ended badly; it is tried again."""

    def __init__(self, rebuild: Rebuild, message: str) -> None:
        super().__init__(
            f"rebuild {rebuild.id} of {rebuild.topic} failed ({rebuild.progress}): {message}. It goes on "
            f"where it was in two minutes, by itself; see `sluice rebuild {rebuild.topic} --list`"
        )


OnlyTask = Annotated[
    str | None, typer.Option("--task", metavar="TASK", help="Only this task, all its versions.")
]
FromDay = Annotated[
    dt.datetime | None,
    typer.Option("--from", formats=["%Y-%m-%d"], metavar="DAY", help="The first day of event time (UTC)."),
]
ToDay = Annotated[
    dt.datetime | None,
    typer.Option("--to", formats=["%Y-%m-%d"], metavar="DAY", help="The last day, included."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only say what would be counted: tasks, days, files, lines.")
]
Listed = Annotated[
    bool, typer.Option("--list", help="Only show the topic's rebuilds, and what is counted again.")
]


def rebuild(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    task: OnlyTask = None,
    first: FromDay = None,
    last: ToDay = None,
    *,
    dry_run: DryRun = False,
    list_: Listed = False,
    wait: Annotated[bool, typer.Option(help="Wait until it ends, and show its progress.")] = True,
) -> None:
    """Count the state and the results of a topic again from the archive, while the speed layer goes on.

    Use it where numbers of the speed layer cannot be trusted, such as after a loss in HBase. A block that is
    lost or damaged needs no command: its period is set aside and counted again by itself.

    Each period that touches one of the days is counted again as a whole, and each line once: the rebuild
    counts the lines up to a commit, the speed layer those that come later. Until the new blocks count,
    readers get the period's published results, or are told that it is being counted again. The DAG rebuild
    does the work, so Ctrl-C only ends the waiting; a rebuild that was killed goes on where it was.

    A task that cannot be counted, because its metric raises on a line for example, is left out and named, and
    the exit code is 1; the others go on. Once its metric is mended, ask for it again.

    Examples:
      sluice rebuild logs --dry-run
      sluice rebuild logs --task hits_by_status --from 2015-05-17 --to 2015-05-20
      sluice rebuild logs --list
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.rebuilds import Rebuilds

    settings = get_settings()
    book = Rebuilds(engine(settings))
    since, until = (None if day is None else day.date() for day in (first, last))
    wanted = WantedRebuild(topic, task, since, until)
    if list_:
        _list(book, topic)
        return
    if dry_run:
        _plan(settings, book.engine, wanted)
        return
    asked = (found := ask(book.engine, wanted, me())).rebuild
    typer.echo(f"{topic}: rebuild {asked.id} of {len(asked.versions or ())} task versions was asked for")
    if found.left_out:
        typer.echo(found.left_out)
    if wait:
        _wait(book, asked)
    else:
        typer.echo(f"its progress: `sluice rebuild {topic} --list`, and the DAG {DAG} in Airflow")


def _wait(book: Rebuilds, asked: Rebuild) -> None:
    from sluice.storage.tables.recounts import Recounts

    try:
        follow_rebuild(book, asked.id, typer.echo)
    except KeyboardInterrupt:
        typer.echo(f"rebuild {asked.id} goes on without you: see {DAG} in Airflow", err=True)
        raise
    listed = Recounts(book.engine, asked.topic).all()
    failed = {each.key[:2]: each.failed for each in listed if each.failed}
    mine = {version: failed[version] for version in asked.versions or () if version in failed}
    for (task_id, version), why in mine.items():
        typer.echo(f"task {task_id}v{version} could not be counted again: {why}")
    if mine:
        raise typer.Exit(1)


def _plan(settings: Settings, database: sa.Engine, wanted: WantedRebuild) -> None:
    """Say what a rebuild would count."""
    from sluice.cli.output.format import Format, write

    found = plan(settings, database, wanted)
    for each in found.tasks:
        typer.echo(f"{each.name} ({each.label}): {each.periods:,} periods")
    if found.left_out:
        typer.echo(found.left_out)
    write(
        ("day", "files", "lines"), [(each.day, each.files, each.lines) for each in found.days], Format.TABLE
    )
    typer.echo(found.sums)


def _list(book: Rebuilds, topic: str) -> None:
    """Show the rebuilds that are not finished, and the set-aside list."""
    from sluice.storage.tables.recounts import Recounts

    open_ = book.unfinished(topic)
    for each in open_:
        failed = f"; the last try failed: {each.failure}" if each.failure else ""
        typer.echo(f"rebuild {each.id}, asked for by {each.requested_by}: {each.progress}{failed}")
    waiting = Recounts(book.engine, topic).all()
    for one in waiting:
        at = dt.datetime.fromtimestamp(one.period_start / 1000, dt.UTC)
        said = f"{one.why or 'asked for'} ({one.standing})"
        typer.echo(f"{one.task_id}v{one.version} {at:%Y-%m-%dT%H:%M:%SZ}: {said}")
    if not open_ and not waiting:
        typer.echo(f"nothing of {topic} is being counted again")


def follow_rebuild(
    book: Rebuilds, number: int, say: Callable[[str], None], pause: float = POLL_SECONDS
) -> Rebuild:
    """Report the rebuild's progress until it ends; return its last state. Raises RebuildFailed."""
    from sluice.storage.tables.rebuilds import RebuildState

    said, begun = "", time.monotonic()
    warned = False
    while True:
        now = book.get(number)
        if now.progress != said:
            say(now.progress)
            said = now.progress
        if now.state == RebuildState.FINISHED:
            return now
        if now.failure:
            raise RebuildFailed(now, now.failure)
        late = (
            now.state == RebuildState.REQUESTED and not now.waits and time.monotonic() - begun > TAKEN_SECONDS
        )
        if late and not warned:
            say(
                f"nothing has taken it up yet: see that the DAG {DAG} is not paused and no other rebuild runs"
            )
            warned = True
        time.sleep(pause)
