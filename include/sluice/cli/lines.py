"""`sluice lines`: from a number to the lines behind it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.errors import FAILED
from sluice.cli.output.format import Format, printable, write
from sluice.cli.output.terminal import REWRITE, steer
from sluice.cli.query_options import naming, time_option
from sluice.cli.results import Version, WhereTexts

if TYPE_CHECKING:
    import pyarrow as pa

    from sluice.lines.answer import LinesAnswer, Progress

#: Seconds between two reports of progress, and before the first.
TELL_SECONDS = 1.0


class LinesFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    CSV = "csv"


Task = Annotated[str, typer.Argument(metavar="TASK", help="A task's name; `sluice tasks list` shows them.")]
Start = Annotated[
    str,
    typer.Option(
        "--period",
        metavar="TIME",
        help="The period's start, as `sluice results` prints it (UTC without an offset).",
    ),
]
MetricName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Only lines that this metric is computed of: missing has those without a measure, sum and "
        "others those with one.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="Show at most N lines.")]
Count = Annotated[bool, typer.Option("--count", help="Print only how many lines there are.")]
Style = Annotated[LinesFormat, typer.Option("--format", help="How to print.")]


def lines(
    task: Task,
    *,
    period: Start,
    where: WhereTexts = None,
    version: Version = None,
    metric: MetricName = "count",
    limit: Limit = 100,
    count: Count = False,
    style: Style = LinesFormat.TEXT,
) -> None:
    """Print the lines behind a result, from the archive and from what Kafka has beyond it.

    They are the lines that the task counted in that period, in the series that pass the conditions: each line
    once, however often it was sent, and as many as `sluice results` says. A line comes with its identity
    (host, file, place of its first byte) and its place in Kafka (partition/offset, and .N for line N of the
    record). They are in the order in which they arrived.

    With --count, or if all lines are shown, their number is compared with the result's count. If it differs,
    because files of the archive were deleted for example, that is said, and the exit code is 1.

    Examples:
      sluice lines hits_by_status --period 2015-05-17T10:05:00Z --where status=500
      sluice lines hits_by_status --period 2015-05-17T10:05:00Z --count
      sluice lines bytes_by_path --period 2015-05-17 --where path^=/blog --metric missing --limit 20
      sluice lines hits_by_status --period 2015-05-17T10:05:00Z --format csv > lines.csv
    """
    from sluice.lines.answer import find
    from sluice.lines.query import LinesQuery
    from sluice.results.written_query import WrittenQuery, query
    from sluice.runtime.settings import get_settings

    start = time_option("period", period)
    assert start is not None  # noqa: S101 - a period was given
    with naming({"where": where, "period": period, "metric": metric}), _progress() as told:
        conditions = query(task, version=version, given=WrittenQuery(where or ())).where
        asked = LinesQuery(task=task, period=start, version=version, where=conditions, metric=metric)
        answer = find(get_settings(), asked, told=told)
        if count:
            _write_count(answer, style)
        else:
            _write(answer, limit, style)
    _conclude(answer, count)


def _write(answer: LinesAnswer, limit: int, style: LinesFormat) -> None:
    from sluice.lines.texts import TEXT_LINES, as_text
    from sluice.results import formats

    out = sys.stdout.buffer
    batches = map(as_text, answer.batches(limit))
    if style is LinesFormat.TEXT:
        for batch in batches:
            out.write("".join(f"{line}\n" for line in for_people(batch)).encode())
    else:
        written = formats.csv if style is LinesFormat.CSV else formats.json_rows
        out.writelines(written(TEXT_LINES, batches))
    out.flush()


def for_people(batch: pa.RecordBatch) -> Iterator[str]:
    """TEXT_LINES as lines of text: identity, place in Kafka, the line."""
    for row in batch.to_pylist():
        place = f"{row['kafka_partition']}/{row['kafka_offset']}.{row['line_in_record']}"
        yield printable(f"{row['host']}:{row['src_file']}:{row['src_offset']}  {place}  {row['line']}")


def _write_count(answer: LinesAnswer, style: LinesFormat) -> None:
    lines = answer.count()
    if style is LinesFormat.TEXT:
        sys.stdout.write(f"{lines}\n")
    else:
        write(["lines"], [[lines]], Format(style.value))


def _conclude(answer: LinesAnswer, count: bool) -> None:
    """Say what was shown and of what; exit with 1 if lines are gone."""
    sys.stdout.flush()
    result = answer.basis.result
    if result.state is None:
        typer.echo("no series of that period passes: nothing was counted", err=True)
    elif not answer.complete:
        whole = "more lines" if result.counted is None else f"{result.counted:,} lines in all"
        typer.echo(f"there are {whole}: --limit N shows more, --count counts them", err=True)
    elif not count:
        as_of = f"commit {result.commit}" if result.commit else f"run {result.run_id}"
        typer.echo(f"{answer.found:,} lines ({result.state}, {as_of})", err=True)
    if doubts := answer.doubts():
        typer.echo(f"sluice: {'; '.join(doubts)}", err=True)
        raise typer.Exit(FAILED)


@contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Tells a terminal how far a long search is, on one line that is cleared at the end."""
    told, terminal = time.monotonic(), sys.stderr.isatty()
    shown = False

    def tell(now: Progress) -> None:
        nonlocal told, shown
        if terminal and time.monotonic() - told > TELL_SECONDS:
            told, shown = time.monotonic(), True
            steer(REWRITE, sys.stderr)
            sys.stderr.write(f"{now.done} of {now.files} files are read, {now.found:,} lines found")
            sys.stderr.flush()

    try:
        yield tell
    finally:
        if shown:
            steer(REWRITE, sys.stderr)
