"""`sluice tasks ...`: what is counted."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.backfill import backfill, backfills
from sluice.cli.output.format import Format, write

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from sluice.tasks import TaskSpec
    from sluice.tasks.store import TaskStore

DIFFERS = 1
SAMPLE = 10

app = typer.Typer(
    help="What is counted: apply, list, show, try out, pause and delete tasks.", no_args_is_help=True
)

Name = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's name, as `sluice tasks list` shows it.")
]
File = Annotated[
    Path, typer.Option("--file", "-f", metavar="FILE", help="A YAML list of tasks; - reads standard input.")
]
Style = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.command()
def apply(
    file: File,
    only: Annotated[
        list[str] | None, typer.Argument(metavar="[TASK]...", help="Only these tasks of the file.")
    ] = None,
) -> None:
    """Create the file's tasks, and give those that changed a new version; all of them or none.

    Tasks that the file does not name stay as they are. A change takes effect with the next batch. A task is
    written out, or given as one SQL statement.

    Examples:
      sluice tasks apply -f include/tasks.yaml
      sluice tasks apply -f include/tasks.yaml hits_by_status
    """
    from sluice.cli.output.documents import FileRefused, refusing
    from sluice.tasks.versions import TaskState

    specs = _read(file)
    if unknown := set(only or ()) - {spec.name for spec in specs}:
        raise FileRefused(
            f"{file} has no task {', '.join(sorted(unknown))}: it has {', '.join(s.name for s in specs)}"
        )
    specs = [spec for spec in specs if not only or spec.name in only]
    with refusing(file):
        changes = _store().apply(specs, me())
    for change in changes:
        resume = f", {change.state}: `sluice tasks resume {change.name}`"
        aside = "" if change.state == TaskState.ACTIVE else resume
        typer.echo(f"{change.name}: {change.action} ({change.task_id}v{change.version}{aside})")


@app.command("list")
def list_(
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only this topic's tasks.")] = None,
    style: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
) -> None:
    """List the tasks with their versions, and why a task that failed is not counted.

    skipped: the lines with a time that it could not take a value from, or too long a value.
    """
    from sluice.storage.tables.tallies import of_topics

    columns = (
        *("id", "task", "topic", "period", "dimensions", "metrics"),
        *("state", "since", "by", "description", "error", "skipped"),
    )
    found = _store().list(topic)
    tallies = of_topics(_database(), {task.topic for task in found})
    rows = [
        (
            task.label,
            task.name,
            task.topic,
            task.spec.period,
            " ".join(d.name for d in task.spec.dimensions),
            " ".join(task.spec.metrics),
            task.state,
            task.created_at.astimezone(UTC).replace(microsecond=0),
            task.created_by,
            task.spec.description,
            task.error,
            tallies[task.key].skipped if task.key in tallies else None,
        )
        for task in found
    ]
    write(columns, rows, style)
    _say_outdated()


@app.command()
def show(
    name: Name,
    format_: Annotated[str, typer.Option("--format", metavar="yaml|json", help="How to print it.")] = "yaml",
) -> None:
    """Print a task as a file that `apply` takes.

    Example:
      sluice tasks show hits_by_status > hits_by_status.yaml
    """
    from sluice.tasks.changes import to_yaml

    if format_ not in ("yaml", "json"):
        raise typer.BadParameter(f"{format_} is not known: use yaml or json", param_hint="--format")
    document = _store().get(name).spec.document()
    if format_ == "json":
        typer.echo(json.dumps([document], indent=2, ensure_ascii=False))
    else:
        typer.echo(to_yaml([document]), nl=False)


@app.command()
def diff(file: File) -> None:
    """Show what `apply` would change, and change nothing; exits 1 if it would change anything.

    Example:
      sluice tasks diff -f include/tasks.yaml
    """
    from sluice.cli.output.documents import refusing
    from sluice.tasks.changes import ChangeAction

    specs = _read(file)
    with refusing(file):
        found = _store().diff(specs)
    for each in found:
        # The same SELECT may count differently: a team's metric in it may take another measure now.
        silent = f": {', '.join(each.fields)}" if each.fields and not each.text else ""
        typer.echo(f"{each.name}: {each.action}{silent}")
        if each.text:
            typer.echo(each.text)
    if any(each.action != ChangeAction.UNCHANGED for each in found):
        raise typer.Exit(DIFFERS)


@app.command()
def pause(name: Name) -> None:
    """Stop counting a task from the next batch on; its results stay."""
    task = _store().pause(name, me())
    typer.echo(f"{name}: {task.state} ({task.label})")


@app.command()
def resume(
    name: Name,
    anew: Annotated[
        bool, typer.Option("--anew", help="As a new version, which can be filled with all earlier lines.")
    ] = False,
) -> None:
    """Count a paused or failed task again; it does not count the lines in between.

    With --anew it begins from nothing, as a new version: `sluice tasks backfill` then counts the lines that
    came before, those in between included.
    """
    task = _store().resume(name, me(), anew=anew)
    typer.echo(f"{name}: {task.state} ({task.label})")
    if anew:
        typer.echo(f"its earlier lines: `sluice tasks backfill {name} --from DAY --to DAY`")


@app.command()
def delete(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Stop counting a task. Its results stay; a new task of that name starts from nothing."""
    from sluice.tasks.topics import DEFAULT_TOPIC

    store = _store()
    task = store.get(name)
    if task.topic != DEFAULT_TOPIC and len(store.list(task.topic)) == 1:
        typer.echo(
            f"{name} is the last task on topic {task.topic}, which is neither archived nor computed without "
            "a task: days that no night has computed stay online only. To keep them, pause the task now and "
            "delete it later.",
            err=True,
        )
    if not yes:
        typer.confirm(f"Stop counting {name} ({task.label})?", abort=True)
    store.delete(name, me())
    typer.echo(f"{name}: deleted ({task.label})")


@app.command()
def history(name: Name, style: Style = Format.TABLE) -> None:
    """Show who changed what and when, including deleted tasks of that name."""
    rows = [
        (f"{e.task_id}v{e.version}", e.action, e.at.astimezone(UTC).replace(microsecond=0), e.by, e.detail)
        for e in _store().history(name)
    ]
    write(("id", "action", "at", "by", "detail"), rows, style)


@app.command("test")
def try_out(
    name: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="The name of an existing task; or give --file.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Tasks that are not applied yet, as for `apply`."),
    ] = None,
    lines: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The lines to try it on; - reads standard input.")
    ] = None,
    sample: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Without --lines: the topic's newest N lines.")
    ] = SAMPLE,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list, for programs.")] = False,
) -> None:
    """Try a task on lines, and show what it would make of each of them.

    It shows what each dimension and the measure took, what the filters did, and why a line is not counted. It
    counts nothing. Exits 1 if the task would fail on these lines.

    Examples:
      sluice tasks test hits_by_status
      sluice tasks test -f include/tasks.yaml --sample 3
      tail -n 5 access.log | sluice tasks test bytes_by_path --lines -
    """
    from sluice.cli.output.trials import print_trials

    if (name is None) == (file is None):
        raise typer.BadParameter("give the name of a task, or --file with tasks that are not applied yet")
    specs = [_store().get(name).spec] if name else _read(file or Path("-"))
    print_trials(_store(), specs, file, lines=lines, sample=sample, as_json=as_json)


def _say_outdated() -> None:
    """Name the first tasks that still cut lines at blanks, beside the output that programs read."""
    from sluice.runtime.settings import get_settings
    from sluice.tasks.first_tasks import advice, cut_at_blanks
    from sluice.tasks.topics import TopicStore

    if names := cut_at_blanks(_store(), TopicStore(_database()), get_settings().root):
        typer.echo(advice(names), err=True)


app.command()(backfill)
app.command()(backfills)


def _database() -> Engine:
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine

    return engine(get_settings())


def _store() -> TaskStore:
    from sluice.tasks.store import TaskStore

    return TaskStore(_database())


def _read(file: Path) -> list[TaskSpec]:
    from sluice.cli.output.documents import read, refusing
    from sluice.tasks import parse_tasks

    with refusing(file):
        return parse_tasks(read(file))
