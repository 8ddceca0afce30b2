"""`sluice topics ...`: what the lines of a topic look like, which driver counts it, and its lines' replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.asked_by import me
from sluice.cli.dead_letters import From, Since, Style, To, Topic
from sluice.cli.output.format import Format, write
from sluice.cli.output.replays import print_report, print_samples, progress
from sluice.cli.query_options import arrival

if TYPE_CHECKING:
    from sluice.tasks.topics import TopicStore

app = typer.Typer(
    help="Topics: what their lines look like, and which driver counts them.", no_args_is_help=True
)


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
    from sluice.cli.output.documents import read, refusing
    from sluice.tasks.topics import parse_topics

    with refusing(file):
        specs = parse_topics(read(file))
        actions = _store().apply_all(specs, me())
    for spec, action in zip(specs, actions, strict=True):
        typer.echo(f"{spec.name}: {action}")
    for name in _make([spec.name for spec in specs]):
        typer.echo(f"{name}: made in Kafka")


@app.command("list")
def list_(style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE) -> None:
    """Show the topics that are described or that a task reads.

    Where the speed layer has several drivers, driver is the one that should count a topic, and owner the one
    that does; they differ while the topic moves.
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.speed_topics import SpeedTopics

    settings = get_settings()
    columns = ["topic", "format", "columns", "time", "tasks", "by"]
    places = SpeedTopics(engine(settings)).places() if settings.speed.drivers > 1 else None
    rows: list[tuple[Any, ...]] = []
    for topic in _store().list():
        name, time = topic.spec.name, topic.spec.time.format if topic.spec.time else "apache"
        row = (name, topic.spec.format, " ".join(topic.spec.columns), time, topic.tasks, topic.created_by)
        place = places.get(name) if places is not None else None
        shown = (None, None) if place is None else (place.driver, place.owner)
        rows.append(row if places is None else (*row, *shown))
    write((*columns, *(("driver", "owner") if places is not None else ())), rows, style)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]) -> None:
    """Print a topic's format as a file that `apply` takes.

    The topic must be described, or a task must read it.
    """
    from sluice.tasks.changes import to_yaml

    store = _store()
    store.require(name)
    given = store.get(name).model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    typer.echo(to_yaml([{"name": name, "format": "combined", **given}]), nl=False)


@app.command()
def delete(
    name: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a topic that was made by mistake: from Kafka, with its records, and its description.

    It says what is deleted, and asks. A topic stays if tasks read it, agents write to it, or a record of it
    was ever counted or archived. A run that was cut short can be repeated.

    Example:
      sluice topics delete shpo
    """
    from sluice.archive import topic_deletion
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine

    settings = get_settings()
    database = engine(settings)
    found = topic_deletion.look(settings, database, name)
    if not yes:
        typer.confirm(f"Delete topic {name} ({found})?", abort=True)
    typer.echo(f"{name}: deleted ({topic_deletion.delete(settings, database, name, me())})")


@app.command()
def move(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")],
    driver: Annotated[str, typer.Argument(metavar="DRIVER", help="As in `sluice topics list`.")],
) -> None:
    """Let another driver of the speed layer count a topic, from the next batch on.

    The old driver stops the topic after a commit, and the new one goes on there: each line counts once. It
    takes seconds. `sluice topics list` shows both drivers.

    Example:
      sluice topics move shop speed_layer-2
    """
    from sluice.runtime.settings import get_settings
    from sluice.speed import topic_moves

    before = topic_moves.move(get_settings(), topic, driver, me())
    typer.echo(f"{topic}: {driver} counts it already" if before == driver else f"{topic}: moves to {driver}")


@app.command()
def spread(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would move.")] = False,
) -> None:
    """Move topics so that the drivers that run have about the same load, by as few moves as that takes.

    The load of a topic is how many bytes of lines were counted a second in the last five minutes. Topics of a
    driver that does not run move to the others. Nothing moves if little would be gained.

    Example:
      sluice topics spread --dry-run
    """
    from sluice.runtime.settings import get_settings
    from sluice.speed import topic_moves
    from sluice.storage.postgres import engine
    from sluice.storage.tables.speed_topics import SpeedTopics

    settings = get_settings()
    found = topic_moves.spread(settings)
    if not dry_run:
        SpeedTopics(engine(settings)).move({each.unit: each.target for each in found}, me())
    for each in found:
        typer.echo(f"{each.unit}: {each.source} -> {each.target}: {each.why}")
    if not found:
        typer.echo("nothing moves: the drivers that run are about equally loaded")


@app.command()
def replay(
    topic: Topic,
    *,
    into: Annotated[
        str,
        typer.Option(metavar="TOPIC", help="The topic that describes them rightly; it has tasks."),
    ],
    begin: From = None,
    end: To = None,
    since: Since = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be sent, with some of the lines.")
    ] = False,
    style: Style = Format.TABLE,
) -> None:
    """Send all lines of a topic to one that describes them rightly, where both layers count each once.

    The format of a topic never changes once it has lines. If it was described wrongly, such as its time or
    zone, describe another topic (`sluice topics apply`), and apply its tasks. Lines come from the archive,
    the newest from Kafka, and each goes under its own identity. So a command that was killed, or is repeated,
    or runs twice at once, doubles nothing. Lines that the other topic cannot read, erased and forged lines,
    and lines that arrived before retention.days are left out and counted. This topic keeps what it counted.

    Examples:
      sluice topics replay shop --into shop_2 --dry-run
      sluice topics replay shop --into shop_2
    """
    from sluice.letters import replay as replays
    from sluice.runtime.settings import get_settings

    asked = replays.ReplayRequest(topic, into, me(), dry_run, progress(style))
    report = replays.replay_topic(get_settings(), asked, *arrival(begin, end, since))
    print_report(report, asked, "lines", style)
    if dry_run and style is Format.TABLE:
        store = _store()
        print_samples(report, [store.get(name) for name in (topic, into)])


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
