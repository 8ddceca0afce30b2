"""`sluice rebuild`: count periods again from the archive."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings
    from sluice.storage.tables.commits import Version
    from sluice.storage.tables.rebuilds import Rebuild, Rebuilds

DAG = "rebuild"
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


class NothingCountable(ValueError):
    """The archive does not have all lines of any period that a rebuild was asked for."""


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

    Examples:
      sluice rebuild logs --dry-run
      sluice rebuild logs --task hits_by_status --from 2015-05-17 --to 2015-05-20
      sluice rebuild logs --list
    """
    from sluice.batch.rebuild.scope import versions_with_state
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.rebuilds import Rebuilds

    settings = get_settings()
    book = Rebuilds(engine(settings))
    if list_:
        _list(book, topic)
        return
    days = _days(first, last)
    versions = versions_with_state(book.engine, topic, task)
    if dry_run:
        _plan(settings, topic, versions, *days)
        return
    left_out = _left_out(book, topic, versions, *days)
    asked = book.request(topic, versions, *days, user=me())
    typer.echo(f"{topic}: rebuild {asked.id} of {len(versions)} task versions was asked for")
    if left_out:
        typer.echo(left_out)
    if wait:
        _wait(book, asked)
    else:
        typer.echo(f"its progress: `sluice rebuild {topic} --list`, and the DAG {DAG} in Airflow")


def _days(first: dt.datetime | None, last: dt.datetime | None) -> tuple[dt.date | None, dt.date | None]:
    from sluice.batch.backfill.ask import BadDays

    since, until = (None if day is None else day.date() for day in (first, last))
    if since is not None and until is not None and since > until:
        raise BadDays(f"--from {since} is after --to {until}: name the earlier day first")
    return since, until


def _left_out(
    book: Rebuilds, topic: str, versions: list[Version], first: dt.date | None, last: dt.date | None
) -> str | None:
    """What is said of periods that cannot be counted again, if there are any. Raises NothingCountable."""
    from sluice.batch.rebuild.scope import scope, with_state

    found = scope(book.engine, topic, with_state(book.engine, topic, versions), first, last)
    if not found.expired:
        return None
    if not found.keys:
        raise NothingCountable(f"topic {topic!r}: {found.left_out}. Nothing is left to count")
    return found.left_out


def _wait(book: Rebuilds, asked: Rebuild) -> None:
    try:
        follow_rebuild(book, asked.id, typer.echo)
    except KeyboardInterrupt:
        typer.echo(f"rebuild {asked.id} goes on without you: see {DAG} in Airflow", err=True)
        raise


def _plan(
    settings: Settings,
    topic: str,
    versions: list[Version],
    first: dt.date | None,
    last: dt.date | None,
) -> None:
    """Say what a rebuild would count."""
    from sluice.batch.rebuild.scope import planned, scope, with_state
    from sluice.cli.output.format import Format, write
    from sluice.storage.postgres import engine
    from sluice.tasks.store import TaskStore

    database = engine(settings)
    found = scope(database, topic, with_state(database, topic, versions), first, last)
    store = TaskStore(database)
    for version in found.versions:
        periods = sum(key[:2] == version for key in found.keys)
        name = store.version(*version).spec.name
        typer.echo(f"{name} ({version[0]}v{version[1]}): {periods:,} periods")
    if found.expired:
        typer.echo(found.left_out)
    days = planned(settings, topic, found.days)
    write(("day", "files", "lines"), [(each.day, each.files, each.lines) for each in days], Format.TABLE)
    files, lines = sum(each.files for each in days), sum(each.lines for each in days)
    typer.echo(
        f"{len(found.keys):,} periods, {len(days)} days, {lines:,} lines (doubles included); "
        f"{files:,} files, each once for each of its days"
    )


def _list(book: Rebuilds, topic: str) -> None:
    """Show the rebuilds that are not finished, and the set-aside list."""
    from sluice.storage.tables.recounts import Recounts

    open_ = book.unfinished(topic)
    for each in open_:
        failed = f"; the last try failed: {each.message}" if each.message and not each.waits else ""
        typer.echo(f"rebuild {each.id}, asked for by {each.requested_by}: {each.progress}{failed}")
    waiting = Recounts(book.engine, topic).all()
    for one in waiting:
        at = dt.datetime.fromtimestamp(one.period_start / 1000, dt.UTC)
        who = "waits for a rebuild" if one.rebuild_id is None else f"rebuild {one.rebuild_id}"
        if one.expired:
            who = "cannot be counted again: retention deleted lines of it from the archive"
        typer.echo(f"{one.task_id}v{one.version} {at:%Y-%m-%dT%H:%M:%SZ}: {one.why or 'asked for'} ({who})")
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
        if now.message is not None and not now.waits:
            raise RebuildFailed(now, now.message)
        late = (
            now.state == RebuildState.REQUESTED and not now.waits and time.monotonic() - begun > TAKEN_SECONDS
        )
        if late and not warned:
            say(
                f"nothing has taken it up yet: see that the DAG {DAG} is not paused and no other rebuild runs"
            )
            warned = True
        time.sleep(pause)
