"""What `sluice deadletters` prints: letters in a list, one letter, what a replay did."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

import typer

from sluice.cli.output.format import Format, plain, table, write

if TYPE_CHECKING:
    from sluice.letters.replay import ReplayReport
    from sluice.storage.tables.dead_letters import DeadLetter
    from sluice.tasks.topic_spec import TopicSpec

GROUP_COLUMNS = ("reason", "letters", "partition", "host", "file", "first", "last")
#: Characters of a line in a list.
SHOWN = 100


def print_list(groups: Sequence[Sequence[Any]], rest: int, newest: Sequence[DeadLetter]) -> None:
    """Print rows of GROUP_COLUMNS, how many more there are, and the newest letters."""
    if not groups:
        typer.echo("no dead letters")
        return
    typer.echo(table(GROUP_COLUMNS, plain(groups)), nl=False)
    if rest:
        typer.echo(f"and {rest:,} more groups: --format csv has all of them")
    rows = [[each.place, each.arrived_at, each.reason, _beginning(each)] for each in newest]
    typer.echo("\n" + table(["id", "arrived", "reason", "line"], plain(rows)), nl=False)


def about(letter: DeadLetter, topic: TopicSpec) -> list[tuple[str, object]]:
    """What is known of a letter beside its line."""
    from sluice.letters.explanation import remedy, tried
    from sluice.runtime.positions import shown

    record = f"partition {letter.partition}, offset {shown(letter.offset)}"
    return [
        ("topic", letter.topic),
        ("id", letter.place),
        ("reason", letter.reason),
        ("arrived", plain(letter.arrived_at)),
        ("host", letter.host),
        ("file", letter.src_file),
        ("offset in it", letter.src_offset),
        ("Kafka", f"{record}, line {letter.line_in_record}"),
        ("last offset", None if letter.last_offset is None else shown(letter.last_offset)),
        ("bytes", f"{letter.size:,}"),
        ("tried", tried(letter, topic)),
        ("would count by", remedy(letter)),
    ]


def print_report(report: ReplayReport, topic: str, into: str, *, dry_run: bool, style: Format) -> None:
    """Print what became of the letters: a row for each day, and for each reason why not."""
    verb = "would be sent" if dry_run else "sent"
    rows: list[tuple[str, str, int]] = [(verb, str(day), lines) for day, lines in sorted(report.days.items())]
    if report.counted_before:
        rows.append(("left out", f"{into} has them already", report.counted_before))
    rows += [
        ("left out", f"{into} cannot read them: {why}", n) for why, n in sorted(report.still_dead.items())
    ]
    rows += [("left out", why, n) for why, n in sorted(report.refused.items())]
    write(["lines", "day of event time, or why not", "number"], rows, style)
    if style is Format.TABLE:
        typer.echo(_conclusion(report, topic, into, dry_run))
        for stretch in old_stretches(report.days):
            command = f"sluice nightly --from {stretch[0]} --to {stretch[1]}"
            typer.echo(f"no night computes a day so long ago by itself; when they are archived: {command}")


def old_stretches(sent: Collection[date]) -> list[tuple[date, date]]:
    """Those of the days that nightly_batch does not look for, as stretches without a gap."""
    from sluice.runtime import days
    from sluice.storage.tables.days import LOOK_BACK

    return days.stretches(day for day in sorted(sent) if day < days.today() - LOOK_BACK)


def _conclusion(report: ReplayReport, topic: str, into: str, dry_run: bool) -> str:
    if dry_run:
        return f"{report.sent:,} of {report.looked_at:,} dead letters of {topic} would be sent to {into}"
    sent = f"{report.sent:,} of {report.looked_at:,} dead letters of {topic} were sent to {into}"
    return f"{sent}: the speed layer counts them in seconds, and the next night computes recent days"


def _beginning(letter: DeadLetter) -> str:
    text: str = plain(letter.line)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
