"""`sluice lists ...`: named lists of values that the filters of tasks use."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from sluice.tasks.lists import ValueLists

app = typer.Typer(help="Named lists of values, for the filters of tasks.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="LIST", help="The list's name, as `sluice lists list` shows it.")
]


@app.command()
def apply(
    file: Annotated[
        Path,
        typer.Option(
            "--file", "-f", metavar="FILE", help="YAML: each list's name and values; - reads standard input."
        ),
    ],
) -> None:
    """Create the file's lists, or give them the file's values; all of them or none.

    Each task that uses a list whose values change gets a new version, which tells results by the old values
    from results by the new ones.

    Examples:
      sluice lists apply -f lists.yaml
      echo 'eu_offices: ["10.1.0.1", "10.2.0.1"]' | sluice lists apply -f -
    """
    from sluice.cli.output.documents import read, refusing
    from sluice.tasks.lists import parse_lists

    with refusing(file):
        changes = _store().apply_all(parse_lists(read(file)), me())
    for change in changes:
        typer.echo(f"{change.name}: {change.action} (version {change.version})")
    for task in sorted({task for change in changes for task in change.tasks}, key=lambda task: task.name):
        typer.echo(f"  task {task.name}: {task.action} ({task.task_id}v{task.version})")


@app.command("list")
def list_(style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE) -> None:
    """Show the lists, and which tasks use them."""
    rows = [
        (
            each.name,
            each.version,
            len(each.values),
            " ".join(each.tasks),
            each.created_at.astimezone(UTC).replace(microsecond=0),
            each.created_by,
        )
        for each in _store().list()
    ]
    write(("list", "version", "values", "tasks", "since", "by"), rows, style)


@app.command()
def show(name: Name) -> None:
    """Print a list as a file that `apply` takes."""
    import yaml

    found = _store().get(name)
    typer.echo(yaml.safe_dump({name: list(found.values)}, allow_unicode=True), nl=False)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a list that no task uses. What was counted with it stays."""
    _store().get(name)
    if not yes:
        typer.confirm(f"Delete the list {name}?", abort=True)
    _store().delete(name, me())
    typer.echo(f"{name}: deleted")


def _store() -> ValueLists:
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.tasks.lists import ValueLists

    return ValueLists(engine(get_settings()))
