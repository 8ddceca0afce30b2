"""`sluice placement ...`: which unit runs on which host, what moves, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from datetime import datetime

    from sluice_hosts.units.proposals import Proposal

app = typer.Typer(help="Units on hosts: plan, move, explain.", no_args_is_help=True)

Style = Annotated[Format, typer.Option("--format", help="How to print.")]
_COLUMNS = ("step", "unit", "from", "to", "why")


@app.command()
def plan(style: Style = Format.TABLE) -> None:
    """Show what would move, and why; nothing is moved.

    All hosts are asked first, and loads are measured. What is in one step may move at the same time. A unit
    without a place is shown without a step.

    Examples:
      sluice placement plan --format json
    """
    _show(_proposal(), style)


@app.command()
def apply(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Avoid no host because a move there failed before.")
    ] = False,
) -> None:
    """Move what the plan says: units that must start side by side, the others one after another.

    At most so many units move in an hour as the setting placement.moves_an_hour says; those that leave a host
    that does not answer do not count. A move that was broken off is finished first. If a move fails, only
    units still move that cannot stay where they are, and for a while its target is avoided: when you have
    repaired that, say --again.

    Examples:
      sluice placement apply --dry-run
      sluice placement apply --again
    """
    from datetime import UTC, datetime

    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice.storage.postgres import engine
    from sluice_hosts.units import moves
    from sluice_hosts.units.catalogue import KINDS

    since = datetime.now(UTC) if again else None
    if dry_run:
        _show(_proposal(since), Format.TABLE)
        return
    settings = get_settings()
    _look()
    journal.note(settings, who=me(), what="placement", name=settings.instance, action="applied")
    done = moves.apply(settings, engine(settings), KINDS, typer.echo, since=since)
    if not done:
        typer.echo("nothing moves: `sluice placement explain` says why")


@app.command()
def explain(
    unit: Annotated[
        str | None, typer.Argument(metavar="UNIT", help="Only this one, e.g. collector:collector1.")
    ] = None,
    style: Style = Format.TABLE,
) -> None:
    """Say why a unit is where it is, why it stays or goes, and what each other host would cost.

    CSV and JSON have a row for each other host of each unit; busiest: by how much the busiest host would then
    be above the mean, nothing if the unit cannot run there.

    Examples:
      sluice placement explain collector:collector1
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice_hosts.units import moves
    from sluice_hosts.units.explain import explain as explained

    found = explained(_proposal(), moves.history(engine(get_settings())), unit)
    if style is Format.TABLE:
        typer.echo("\n".join(each.text for each in found), nl=False)
        return
    rows: list[tuple[Any, ...]] = []
    for each in found:
        said = " ".join(each.says)
        rows += [
            (each.unit, each.host, each.moves_to, said, a.host, a.busiest, a.says) for a in each.alternatives
        ]
        rows += [] if each.alternatives else [(each.unit, each.host, None, said, None, None, None)]
    write(("unit", "host", "moves_to", "says", "other", "busiest", "other_says"), rows, style)


def _look() -> None:
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice_hosts.units import measure
    from sluice_hosts.units.catalogue import KINDS

    settings = get_settings()
    measure.look(settings, engine(settings), KINDS)


def _proposal(since: datetime | None = None) -> Proposal:
    """What would be done, with what all hosts say now. since: moves that failed before are forgotten."""
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice_hosts.units import proposals
    from sluice_hosts.units.catalogue import KINDS

    settings = get_settings()
    _look()
    return proposals.propose(settings, engine(settings), KINDS, since=since)


def _show(proposal: Proposal, style: Format) -> None:
    write(_COLUMNS, list(proposal.rows()), style)
    for line in proposal.notes():
        typer.echo(line, err=True)
