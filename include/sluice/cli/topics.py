"""`sluice topics ...`: what the lines of a topic look like."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.format import Format, write

if TYPE_CHECKING:
    from sluice.tasks.topics import TopicStore

app = typer.Typer(help="What the lines of a topic look like: their format and time.", no_args_is_help=True)


@app.command()
def apply(
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE", help="A YAML list of topics; - reads standard input."),
    ],
) -> None:
    """Describe the file's topics: format, named fields, a line's time; all of them or none.

    A topic that Kafka does not have yet is made there, with the settings that Sluice needs.
    A topic that nobody described has Apache's access log format. Once a topic has lines its format stays,
    because both layers must read the same lines alike.

    Example:
      sluice topics apply -f shop.yaml      with - {name: shop, format: json, time: {...}}
    """
    from sluice.cli.documents import read, refusing
    from sluice.tasks.topics import parse_topics

    with refusing(file):
        specs = parse_topics(read(file))
        actions = _store().apply_all(specs, getpass.getuser())
    for spec, action in zip(specs, actions, strict=True):
        typer.echo(f"{spec.name}: {action}")
    for name in _make([spec.name for spec in specs]):
        typer.echo(f"{name}: made in Kafka")


@app.command("list")
def list_(style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE) -> None:
    """Show the topics that are described or that a task reads."""
    rows = [
        (
            topic.spec.name,
            topic.spec.format,
            " ".join(topic.spec.columns),
            topic.spec.time.format if topic.spec.time else "apache",
            topic.tasks,
            topic.created_by,
        )
        for topic in _store().list()
    ]
    write(("topic", "format", "columns", "time", "tasks", "by"), rows, style)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]) -> None:
    """Print a topic's format as a file that `apply` takes."""
    from sluice.tasks.changes import to_yaml

    given = _store().get(name).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    typer.echo(to_yaml([{"name": name, "format": "combined", **given}]), nl=False)


def _make(names: Sequence[str]) -> Iterator[str]:
    """Make the topics that Kafka lacks; yields their names. What is applied stays if Kafka is away."""
    from sluice.runtime.settings import get_settings
    from sluice.transmission.topics import TopicMissing, Topics

    with Topics(get_settings()) as topics:
        for name in names:
            try:
                topics.describe(name)
            except TopicMissing:
                topics.create(name)
                yield name


def _store() -> TopicStore:
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.tasks.topics import TopicStore

    return TopicStore(engine(get_settings()))
