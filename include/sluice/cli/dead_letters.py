"""`sluice deadletters ...`: lines that no task counts, and how they come to count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.asked_by import me
from sluice.cli.output.dead_letters import GROUP_COLUMNS, about, print_list
from sluice.cli.output.format import Format, plain, printable, write
from sluice.cli.output.replays import print_report, print_samples, progress
from sluice.cli.query_options import BadOption, arrival

if TYPE_CHECKING:
    from sluice.storage.tables.dead_letters import LetterFilter
    from sluice.tasks.topics import TopicStore

app = typer.Typer(help="Dead letters: lines that no task counts.", no_args_is_help=True)

#: Groups that a table shows.
MOST_GROUPS = 50

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
Reason = Annotated[
    str, typer.Option(metavar="TEXT", help="Only those of this reason, as `sluice deadletters list` has it.")
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Only those that arrived then or later (UTC without an offset)."
    ),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Only those that arrived before.")]
Since = Annotated[
    str, typer.Option(metavar="DURATION", help="Only those that arrived in the last 90s, 30m, 1h or 7d.")
]
Style = Annotated[Format, typer.Option("--format", help="How to print.")]


@app.command("list")
def list_(
    topic: Topic,
    *,
    reason: Reason = "",
    begin: From = None,
    end: To = None,
    since: Since = "",
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="Show the newest N after the counts.")
    ] = 20,
    style: Style = Format.TABLE,
) -> None:
    """Count a topic's dead letters by reason, partition and file, and show the newest ones.

    A dead letter is a line without a time that the topic's format finds, one that is too long, a forged one,
    or what is left of a record that cannot be read. Both layers leave it out alike.

    Examples:
      sluice deadletters list shop --since 1h
      sluice deadletters list shop --reason 'no event time' --from 2015-05-17 --format json

    CSV has the counts alone.
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables import dead_letters

    chosen = _chosen(topic, reason, begin, end, since)
    database = engine(get_settings())
    found = dead_letters.groups(database, chosen)
    shown = islice(found, MOST_GROUPS) if style is Format.TABLE else found
    groups = [[g.reason, g.letters, g.partition, g.host, g.src_file, g.first, g.last] for g in shown]
    rest = sum(1 for _ in found)
    if style is Format.CSV:
        write(GROUP_COLUMNS, groups, style)
        return
    newest = dead_letters.newest_of(database, chosen, limit)
    if style is Format.JSON:
        named = [dict(zip(GROUP_COLUMNS, plain(row), strict=True)) for row in groups]
        document = {"groups": named, "newest": [plain({"id": each.place, **vars(each)}) for each in newest]}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
    else:
        print_list(groups, rest, newest)


@app.command()
def show(
    topic: Topic,
    place: Annotated[
        str,
        typer.Argument(metavar="ID", help="As `sluice deadletters list` prints it: PARTITION/OFFSET.LINE."),
    ],
) -> None:
    """Print one dead letter: its whole line, where it comes from, why it is one, what would make it count.

    The line is taken from the archive, or from Kafka. What would steer a terminal is printed as text.

    Example:
      sluice deadletters show shop 3/1024.0
    """
    from sluice.letters.explanation import readers
    from sluice.letters.whole import WholeLines
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables import dead_letters

    settings = get_settings()
    store = _known(topic)
    letter = dead_letters.at_place(engine(settings), topic, *_place(place))
    if letter is None:
        raise BadOption(
            f"topic {topic} has no dead letter {place}: `sluice deadletters list {topic}` shows ids"
        )
    line = WholeLines(settings, topic).line(letter)
    rows = about(letter, store.get(topic))
    if line is not None:
        others = (each.spec for each in store.list() if each.spec.name != topic)
        rows += [
            ("read by", f"topic {name}, as of {plain(at)}") for name, at in readers(line, others).items()
        ]
    for label, value in rows:
        if value is not None:
            typer.echo(f"{label:<15} {printable(str(value))}")
    typer.echo("line" if line is not None else f"the first {len(letter.line):,} bytes")
    typer.echo(printable(plain(letter.line if line is None else line)))


@app.command()
def export(
    topic: Topic,
    *,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="Where to: FILE.jsonl, FILE.csv or FILE.parquet."),
    ],
    reason: Reason = "",
    begin: From = None,
    end: To = None,
    since: Since = "",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write dead letters to a file, each with its whole line: JSON lines, CSV or Parquet.

    The file appears when it is complete, and only you may read it. Where the archive and Kafka have lost a
    line, whole is false, and the line is its beginning. In CSV a text that a spreadsheet would run as a
    formula begins with an apostrophe.

    Examples:
      sluice deadletters export shop --out letters.parquet
      sluice deadletters export shop --reason 'no event time' --since 7d --out letters.csv
    """
    from sluice.letters.export import export as write_file
    from sluice.letters.whole import WholeLines
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.dead_letters import all_in_order

    settings = get_settings()
    chosen = _chosen(topic, reason, begin, end, since)
    letters = all_in_order(engine(settings), chosen)
    number = write_file(WholeLines(settings, topic).of(letters), out, force=force)
    typer.echo(f"{out}: {number:,} dead letters")


@app.command()
def replay(
    topic: Topic,
    *,
    into: Annotated[
        str, typer.Option(metavar="TOPIC", help="The topic whose format reads them; its tasks count them.")
    ],
    reason: Reason = "",
    begin: From = None,
    end: To = None,
    since: Since = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
    style: Style = Format.TABLE,
) -> None:
    """Send dead letters that another topic can read to that topic, where both layers count each once.

    The format of a topic never changes once it has lines, so a corrected format is another topic: describe it
    (`sluice topics apply`), and apply its tasks. Only lines in which it finds a time are sent, each under its
    own identity. So a command that was killed, or is repeated, or runs twice at once, doubles nothing. In
    their own topic the lines stay dead letters. Letters that arrived before retention.days are left out.

    All lines of a topic, whatever it made of them, go there by `sluice topics replay`.

    Examples:
      sluice deadletters replay shop --into shop_2 --dry-run
      sluice deadletters replay shop --into shop_2 --reason 'no event time'
    """
    from sluice.letters import replay as replays
    from sluice.runtime.settings import get_settings

    chosen = _chosen(topic, reason, begin, end, since)
    asked = replays.ReplayRequest(topic, into, me(), dry_run, progress(style))
    report = replays.replay_letters(get_settings(), chosen, asked)
    print_report(report, asked, "dead letters", style)
    if dry_run and style is Format.TABLE:
        print_samples(report, [_known(topic).get(name) for name in (topic, into)])


def _chosen(topic: str, reason: str, begin: str | None, end: str | None, since: str) -> LetterFilter:
    """The letters that the options name. Raises BadOption, UnknownTopic."""
    from sluice.storage.tables.dead_letters import LetterFilter

    first, until = arrival(begin, end, since)
    _known(topic)
    return LetterFilter(topic, reason, first, until)


def _known(topic: str) -> TopicStore:
    """The topics, among which this one is, or was while lines came. Raises UnknownTopic."""
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.storage.tables.dead_letters import has_letters
    from sluice.tasks.topics import TopicStore

    database = engine(get_settings())
    store = TopicStore(database)
    store.require(topic, also=[topic] if has_letters(database, topic) else [])
    return store


def _place(text: str) -> Sequence[int]:
    """Partition, position and line of an id. Raises BadOption."""
    partition, _, rest = text.partition("/")
    offset, _, line = rest.partition(".")
    numbers = [partition, offset, line or "0"]
    if not all(each.isascii() and each.isdigit() and len(each) <= 18 for each in numbers):  # noqa: PLR2004
        raise BadOption(f"{text[:100]!r} is no id: write PARTITION/OFFSET.LINE, such as 3/1024.0")
    return [int(each) for each in numbers]
