"""`sluice audit`: the hop table."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.format import Format, table, write

if TYPE_CHECKING:
    from sluice.quality.hops import Hops

#: The hops are not read at one instant: what disagrees is read again before it is called wrong.
READINGS = 3
PAUSE_SECONDS = 2.0

MEANING = {
    "lines_read": "complete lines in the front-ends' files",
    "kafka": "records in the topic; a record has one line or more",
    "doubled": "lines that Flume delivered again, not counted",
    "online": "lines counted by the speed layer",
    "unmatched": "of these, lines that are not of the topic's format",
    "archived": "lines in the master dataset on HDFS",
    "hive_raw": "rows of Hive's table raw, over the archive",
    "hive_unique": "rows of Hive's table logs: parsed, doubles removed",
    "dead_lettered": "lines that could not be read, in the table dead_letters",
    "lost": "lines that the byte ledger lacks although all is drained",
}


def audit(
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic to follow.")] = "logs",
    files: Annotated[
        bool, typer.Option("--files", help="Show each file, and the holes in its ledger.")
    ] = False,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Follow a topic's lines from hop to hop, and prove that none is lost or counted twice.

    Reads the front-ends' files and holds them against the byte ledger: the stretches of each file whose lines
    were counted. Says what is still on its way; once nothing is, every hop must agree. A name that was used
    again stands there as name#1, name#2, ...: the file that is there now; what it had before is only counted.
    While the SQL endpoint is away, it says so and shows all hops but Hive's two.

    Examples:
      sluice audit                      the hop table
      sluice audit --files              and each file, with its holes
      sluice audit --format json | jq .counts.lost

    Exit code 1 if a line is lost, two hops disagree or a hop cannot be seen.
    """
    from sluice.quality.audit import audit as read
    from sluice.runtime.settings import get_settings

    for reading in range(READINGS):
        if reading:
            time.sleep(PAUSE_SECONDS)
        hops = read(get_settings(), topic)
        if hops.ok:
            break
    if not any(hops.counts().values()):
        _require(topic)
    show(hops, style, files)
    raise typer.Exit(0 if hops.ok else 1)


def _require(topic: str) -> None:
    """Raise UnknownTopic if nobody described the topic and neither a task nor the inventory has it."""
    from sluice.collection import inventory
    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.tasks.topics import TopicStore

    settings = get_settings()
    TopicStore(engine(settings)).require(topic, also=[inventory.load(settings).topic])


def show(hops: Hops, style: Format, files: bool) -> None:
    """Print the hops; JSON holds everything, CSV the counts alone."""
    if style is Format.JSON:
        document = {
            "topic": hops.topic,
            "counts": hops.counts(),
            "in_flight": list(hops.in_flight),
            "disagreements": list(hops.disagreements),
            "gone": list(hops.gone),
            "unseen": hops.unseen,
            "days_to_come": dict(hops.days_to_come),
            "of_no_file": hops.of_no_file,
            "redacted": hops.redacted,
            "skipped": {name: asdict(tally) for name, tally in hops.skipped.items()},
            "not_counted_then": hops.untold,
            "files": [vars(f) for f in hops.files] if files else [],
        }
        typer.echo(json.dumps(document, indent=1))
    elif style is Format.CSV:
        write(["hop", "count"], list(hops.counts().items()), style)
        if files:
            write(
                list(vars(hops.files[0])) if hops.files else [],
                [list(vars(f).values()) for f in hops.files],
                style,
            )
    else:
        typer.echo(hop_table(hops), nl=False)
        if files:
            typer.echo("\n" + file_table(hops), nl=False)
        for note in notes(hops):
            typer.echo(note)


def hop_table(hops: Hops) -> str:
    return table(
        ["hop", "count", "what"], [[k, f"{v:,}".rjust(13), MEANING[k]] for k, v in hops.counts().items()]
    )


def file_table(hops: Hops) -> str:
    rows = [
        [f.host, f.src_file, f.lines, f.bytes, f.missing_lines, f.missing_bytes,
         " ".join(f"[{begin},{end})" for begin, end in f.holes[:3])]
        for f in hops.files
    ]  # fmt: skip
    return table(["host", "file", "lines", "bytes", "missing_lines", "missing_bytes", "holes"], rows)


def notes(hops: Hops) -> list[str]:
    """What the table does not say: what moves, is gone, is wrong or unseen; or that everything agrees."""
    lines = [f"in flight: {what}" for what in hops.in_flight]
    if hops.gone:
        lines.append(
            f"{len(hops.gone)} files, or earlier contents of a name, were counted and are gone from the "
            "front-ends: their lines cannot be read again"
        )
    lines += [f"DISAGREES: {what}" for what in hops.disagreements]
    if hops.lost:
        lines.append(f"LOST: {hops.lost:,} lines; `sluice audit --files` names the files and the bytes")
    if hops.unseen:
        lines.append(f"NOT SEEN: hive_raw and hive_unique are what the books say, for {hops.unseen}")
    if not lines:
        lines.append("every hop agrees; nothing is in flight")
    for name, tally in hops.skipped.items():
        lines.append(
            f"{name} skipped {tally.skipped:,} of {tally.lines:,} lines: {tally.unmatched:,} unmatched, "
            f"{tally.too_long:,} too long; the console's page of the task has samples"
        )
    if hops.untold:
        lines.append(
            f"{hops.untold:,} lines were counted by an earlier release: what tasks skipped of them was not "
            "counted then"
        )
    if hops.redacted:
        lines.append(
            f"{hops.redacted:,} redacted: these lines were online or dead letters until they were erased; "
            "only archived, doubled and hive_raw still count them"
        )
    if hops.of_no_file:
        lines.append(
            f"{hops.of_no_file:,} records were not collected from a file: another producer's, forged or "
            "unreadable"
        )
    if hops.days_to_come:
        from sluice.quality.hops import some

        lines.append(
            f"{sum(hops.days_to_come.values()):,} lines are of days that are not over "
            f"({some(sorted(hops.days_to_come))}): nightly_batch computes a day in the night after it"
        )
    return lines
