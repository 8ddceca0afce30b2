"""`sluice jobs ...`: on which host each job runs that may run on others, and how to move one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.format import Format, write

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
    its host.
    """
    from sluice.elsewhere import places
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    write(_COLUMNS, [_row(settings, member) for member in places.members(settings)], style)


@app.command()
def move(
    unit: Annotated[str, typer.Argument(metavar="UNIT", help="The job's unit, e.g. archiver:2.")],
    host: Annotated[str, typer.Argument(metavar="HOST", help="local, or a host with the role jobs.")],
) -> None:
    """Stop a job where it runs, and start it on another host. No line is lost, or counts twice.

    If its present host does not answer, it starts on the other one all the same; what the silent host still
    runs is harmless, and is stopped when the host answers. Other drivers count the topics of a driver while
    it moves; where there is no other, they wait until it has started.

    Examples:
      sluice jobs move archiver:2 h3
      sluice jobs move speed_layer:1 local
    """
    from sluice.runtime.settings import get_settings
    from sluice.units import jobs

    jobs.move(get_settings(), unit, host, typer.echo)


def _row(settings: Settings, member: str) -> tuple[str, str, str, str, str, int | None, str]:
    from sluice.collection.hosts import LOCAL
    from sluice.elsewhere import places, state
    from sluice.runtime import detached

    record = detached.read(member, settings.home / "run")
    unit, belongs, runs = places.unit(member), places.belongs_on(settings, member), LOCAL
    if record is None:  # it was stopped just now
        return unit, member, belongs, "", "stopped", None, ""
    runs = places.host_of(record)
    if not detached.alive(record):
        return unit, member, belongs, runs, "dead", None, f"see `sluice logs {member}`"
    if runs == LOCAL:
        return unit, member, belongs, runs, "alive", record.pid, ""
    said = state.read(settings, member, record.pid)
    if said is None:
        return unit, member, belongs, runs, "starts", None, ""
    return unit, member, belongs, runs, said.state, said.pid or None, said.why
