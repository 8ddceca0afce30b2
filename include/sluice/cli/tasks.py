"""`sluice tasks ...`: what is counted."""

from __future__ import annotations

import getpass
import json
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
import yaml

from sluice.cli.format import Format, write

if TYPE_CHECKING:
    from sluice.tasks.store import Task, TaskStore

NOT_FOUND, REFUSED = 1, 2

app = typer.Typer(help="What is counted: apply, list, show and delete tasks.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's name, as `sluice tasks list` shows it.")
]


@app.command()
def apply(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="A YAML list of tasks; - reads standard input."),
    ],
) -> None:
    """Create the file's tasks, and give those that changed a new version; all of them or none.

    Tasks that the file does not name stay as they are. A change takes effect with the next batch.

    Example:
      sluice tasks apply -f include/tasks.yaml
    """
    from sluice.tasks import TasksRefused, parse_tasks

    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        specs = parse_tasks(text)
    except OSError as error:
        raise _fail(f"{file}: {error.strerror}", REFUSED) from None
    except UnicodeDecodeError as error:
        raise _fail(
            f"{file} is not UTF-8 ({error.reason} at byte {error.start}): save it as UTF-8", REFUSED
        ) from None
    except TasksRefused as refused:
        raise _fail(f"{file} is refused, nothing was changed\n{refused}", REFUSED) from None
    for change in _store().apply(specs, getpass.getuser()):
        typer.echo(f"{change.name}: {change.action} ({change.task_id}v{change.version})")


@app.command("list")
def list_(
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic's tasks.")] = None,
    style: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
) -> None:
    """List the tasks with their versions."""
    columns = ("id", "task", "topic", "period", "dimensions", "metrics", "state", "since", "by")
    rows = [
        (
            f"{task.task_id}v{task.version}",
            task.name,
            task.topic,
            task.spec.period,
            " ".join(d.name for d in task.spec.dimensions),
            " ".join(task.spec.metrics),
            "active" if task.enabled else "paused",
            task.created_at.astimezone(UTC).replace(microsecond=0),
            task.created_by,
        )
        for task in _store().list(topic)
    ]
    write(columns, rows, style)


@app.command()
def show(
    name: Name,
    format_: Annotated[str, typer.Option("--format", metavar="yaml|json", help="How to print it.")] = "yaml",
) -> None:
    """Print a task as a file that `apply` takes."""
    if format_ not in ("yaml", "json"):
        raise _fail(f"--format {format_} is not known: use yaml or json", REFUSED)
    spec = _get(name).spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    if format_ == "json":
        typer.echo(json.dumps([spec], indent=2, ensure_ascii=False))
    else:
        typer.echo(yaml.safe_dump([spec], sort_keys=False, allow_unicode=True), nl=False)


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop counting a task. Its results stay; a new task of that name starts from nothing."""
    from sluice.tasks.store import UnknownTask

    task = _get(name)
    if not yes:
        typer.confirm(f"Stop counting {name} ({task.task_id}v{task.version})?", abort=True)
    try:
        _store().delete(name, getpass.getuser())
    except UnknownTask as unknown:  # someone else was faster
        raise _fail(str(unknown), NOT_FOUND) from None
    typer.echo(f"{name}: deleted ({task.task_id}v{task.version})")


def _store() -> TaskStore:
    from sluice.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.tasks.store import TaskStore

    return TaskStore(engine(get_settings()))


def _get(name: str) -> Task:
    from sluice.tasks.store import UnknownTask

    try:
        return _store().get(name)
    except UnknownTask as unknown:
        raise _fail(str(unknown), NOT_FOUND) from None


def _fail(message: str, code: int) -> typer.Exit:
    typer.echo(f"sluice: {message}", err=True)
    return typer.Exit(code)
