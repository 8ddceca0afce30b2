"""What a replay prints: how far it is, and what became of the lines."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from datetime import date
from typing import TYPE_CHECKING

import typer

from sluice.cli.output.format import Format, plain, table, write

if TYPE_CHECKING:
    from sluice.letters.line_replay import ReplayReport, ReplayTold
    from sluice.letters.replay import ReplayRequest
    from sluice.tasks.topic_spec import TopicSpec

#: Seconds between two lines of progress.
BEAT = 1.0
#: Characters of a sample.
SHOWN = 120


def progress(style: Format) -> ReplayTold:
    """Prints how far a replay is, every BEAT seconds, where people read."""
    last = 0.0

    def told(report: ReplayReport) -> None:
        nonlocal last
        if style is Format.TABLE and time.monotonic() >= last + BEAT:
            last = time.monotonic()
            typer.echo(f"{report.looked_at:,} looked at, {report.sent:,} to send or sent", err=True)

    return told


def print_report(report: ReplayReport, asked: ReplayRequest, what: str, style: Format) -> None:
    """Print what became of the lines: a row for each day, and for each reason why not.

    what: what the lines are called.
    """
    into = asked.into
    verb = "would be sent" if asked.dry_run else "sent"
    rows: list[tuple[str, str, int]] = [(verb, str(day), lines) for day, lines in sorted(report.days.items())]
    if report.copies:
        rows.append(("left out", f"copies: {into} or this replay has them already", report.copies))
    rows += [
        ("left out", f"{into} cannot read them: {why}", n) for why, n in sorted(report.still_dead.items())
    ]
    rows += [("left out", why, n) for why, n in sorted(report.refused.items())]
    write(["lines", "day of event time, or why not", "number"], rows, style)
    if style is Format.TABLE:
        typer.echo(_conclusion(report, asked, what))
        for stretch in old_stretches(report.days):
            command = f"sluice nightly --from {stretch[0]} --to {stretch[1]}"
            typer.echo(f"no night computes a day so long ago by itself; when they are archived: {command}")


def print_samples(report: ReplayReport, topics: Sequence[TopicSpec]) -> None:
    """Print some of the lines, and when each of them happened as these topics read it."""
    from sluice.letters.explanation import readers

    rows = []
    for line in (*report.read, *report.unread):
        times = readers(line, topics)
        rows.append([*(times.get(topic.name) for topic in topics), plain(line)[:SHOWN]])
    if rows:
        headings = [*(f"as {topic.name} reads it" for topic in topics), "line"]
        typer.echo("\n" + table(headings, plain(rows)), nl=False)


def old_stretches(sent: Collection[date]) -> list[tuple[date, date]]:
    """Those of the days that nightly_batch does not look for, as stretches without a gap."""
    from sluice.runtime import days
    from sluice.storage.tables.days import LOOK_BACK

    return days.stretches(day for day in sorted(sent) if day < days.today() - LOOK_BACK)


def _conclusion(report: ReplayReport, asked: ReplayRequest, what: str) -> str:
    of = f"{report.sent:,} of {report.looked_at:,} {what} of {asked.topic}"
    if asked.dry_run:
        return f"{of} would be sent to {asked.into}"
    layers = "the speed layer counts them in seconds, and the next night computes recent days"
    return f"{of} were sent to {asked.into}: {layers}"
