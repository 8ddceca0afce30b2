"""`sluice jobs ...`: on which host each job runs that may run on others, and how to move one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from sluice.runtime.settings import Settings

app = typer.Typer(help="Jobs that run for ever, and their hosts: list, move.", no_args_is_help=True)

Style = Annotated[Format, typer.Option("--format", help="How to print.")]
_COLUMNS = ("unit", "job", "belongs_on", "runs_on", "state", "pid", "why")


@app.command("list")
def list_(style: Style = Format.TABLE) -> None:
    """Show where each job is to run, where it runs, and its state.

    unknown: its host does not answer, so it may run or not. starts: its host was not yet seen to run it.
    stopped: it does not run, for example because its host has another release of Sluice. pid: of the job, on
    its host. A driver that moves has two lines: the second is of the process that starts on the next host.
    """
    from sluice.runtime import successor
    from sluice.runtime.settings import get_settings
    from sluice_hosts.jobs import places

    settings = get_settings()
    rows = [
        _row(settings, member, name)
        for member in places.members(settings)
        for name in (member, successor.name_of(member))
    ]
    write(_COLUMNS, [row for row in rows if row], style)


@app.command()
def move(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="The job's unit, e.g. archiver:2.")],
    host: Annotated[str, typer.Argument(metavar="HOST", help="local, or a host with the role jobs.")],
) -> None:
    """Let a job run on another host. No line is lost, or counts twice.

    A driver counts where it is until it has started on the other host. An archiver stops first, because it
    starts soon. If the present host does not answer, the job starts on the other one all the same; what the
    silent host still runs is harmless, and is stopped when the host answers.

    Examples:
      sluice jobs move archiver:2 h3
      sluice jobs move speed_layer:1 local
    """
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice_hosts.jobs import moving

    settings = get_settings()
    moving.move(settings, unit, host, typer.echo)
    journal.note(settings, who=me(), what="job", name=unit, action="moved", after=host)


_Row = tuple[str, str, str, str, str, int | None, str]


def _row(settings: Settings, member: str, name: str) -> _Row | None:
    """The line of a member, or under the other name of its successor; None if it has none."""
    from sluice.collection.agent import LOCAL
    from sluice.runtime import detached
    from sluice_hosts.jobs import job_state, places
    from sluice_hosts.jobs.job_state import JobState

    record = detached.read(name, settings.home / "run")
    unit, belongs = places.unit(member), places.belongs_on(settings, member)
    if record is None:  # it was stopped just now
        return (unit, name, belongs, "", JobState.STOPPED, None, "") if name == member else None
    runs = places.host_of(record)
    if not detached.alive(record):
        return unit, name, belongs, runs, JobState.DEAD, None, f"see `sluice logs {member}`"
    if runs == LOCAL:
        return unit, name, belongs, runs, JobState.ALIVE, record.pid, ""
    said = job_state.read(settings, name, record.pid)
    if said is None:
        return unit, name, belongs, runs, JobState.STARTS, None, ""
    return unit, name, belongs, runs, said.state, said.pid or None, said.why
