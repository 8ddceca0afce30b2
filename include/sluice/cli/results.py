"""`sluice results` and `sluice sql`: what was counted, from HBase and from Hive."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.format import Format, printable, write
from sluice.cli.query_options import BadOption, naming, span
from sluice.results.written_query import WrittenQuery, query

if TYPE_CHECKING:
    from sluice.results.query import Query
    from sluice.results.reader import ResultsAnswer


#: Spark's class of an error of a text that is compared with a number, and what to say of it.
NO_NUMBER = "[CAST_INVALID_INPUT]"
TEXT = "A task's dimensions are text: compare them with text in quotes, such as status = '200'."


#: The columns of --list.
_STATEMENT = ("id", "user", "since", "seconds", "state", "statement")


def _cancel(wanted: str) -> None:
    from sluice.cli.asked_by import me
    from sluice.runtime.settings import get_settings
    from sluice.stack import journal
    from sluice.storage.tables import statements

    ended = statements.cancel(get_settings(), wanted)
    who, text = me(), ended.statement
    journal.note(get_settings(), who=who, what="statement", name=ended.name, action="cancelled", before=text)
    typer.echo(f"cancelled {printable(ended.name)}: {printable(text)}")


class StatementFailed(RuntimeError):
    """The SQL endpoint refused a statement; the message ends with the remedy."""


class Layer(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"
    MERGED = "merged"


class ResultFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


Since = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Periods that start at or after this day or time (UTC)."),
]
Until = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="Periods that start before this day or time (UTC)."),
]
FromLayer = Annotated[
    Layer,
    typer.Option(
        help="online: the speed layer's counts, in HBase. offline: the batch layer's, in Hive. "
        "merged: published periods from the final blocks, all others from the newest commit."
    ),
]
Version = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="A version of the task; default: the current one.")
]
WhereTexts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Only series that pass: DIM=VALUE, DIM^=PREFIX or DIM~=PATTERN (found anywhere in the value). "
        "All conditions must hold; several values of one dimension are alternatives.",
    ),
]
TopText = Annotated[
    str | None,
    typer.Option(
        metavar="N[:METRIC]",
        help="Only the N series with the largest METRIC (default: count) over the whole time, and all others "
        "of a period as one, (other).",
    ),
]
RollupTexts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Keep only these dimensions (total: none), or a coarser period (1h, 1d, all), or both: "
        "client,1d.",
    ),
]
SortTexts = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN[:desc]", help="Sort by a column; default: period, then dimensions."),
]
Limit = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most N rows.")]
Style = Annotated[
    ResultFormat, typer.Option("--format", help="How to print; parquet needs a file or a pipe.")
]


def results(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task's name; `sluice tasks list` shows them.")
    ],
    *,
    since: Since = None,
    until: Until = None,
    layer: FromLayer = Layer.MERGED,
    version: Version = None,
    where: WhereTexts = None,
    top: TopText = None,
    rollup: RollupTexts = None,
    sort: SortTexts = None,
    limit: Limit = None,
    style: Style = ResultFormat.TABLE,
) -> None:
    """Print what a task counted: a row for each period and combination of dimension values.

    A sketched value (unique, quantiles, top-k) that is not exact is shown with its stated error, ±. The error
    of unique is relative to the value; that of a quantile is in the measure's unit, that of top-k in counts.
    csv, json and parquet have a column for each error, <metric>_error. If a task has a time zone, its periods
    are printed in that zone.

    The column state says where a period came from: final (it was published), superseded (it was published,
    but its day has changed since and will be computed again) or open (the newest commit of the speed layer).
    A period whose state was lost is counted again from the archive (sluice rebuild). It has no rows until
    then, and a line on standard error says so; a roll-up that lacks it has the state recounting.
    Only merged results can be filtered, rolled up, sorted and limited, and are printed while they are read.

    Examples:
      sluice results hits_by_status
      sluice results hits_by_status --from 2015-05-17 --to 2015-05-18 --layer online
      sluice results hits_by_status --where status^=5 --rollup total,1h --format csv
      sluice results bytes_by_path --top 10:sum --rollup path,1d --sort sum:desc
      sluice results bytes_by_path --where path~='[.]png$' --format parquet > png.parquet
      sluice results hits_by_status --format csv | awk -F, 'NR>1 {n[$2]+=$3} END {for (s in n) print s, n[s]}'
    """
    when = span(since, until)
    options = {"where": where, "top": top, "rollup": rollup, "sort": sort, "limit": limit}
    if layer is Layer.MERGED:
        given = WrittenQuery(where or (), top, rollup or (), sort or (), limit)
        with naming(options):
            _merged(query(task, when, version, given), style)
    else:
        _refuse(layer, style, options)
        _of_layer(task, layer, when, version, Format(style.value))


def _refuse(layer: Layer, style: ResultFormat, given: Mapping[str, object]) -> None:
    """Raise BadOption if an option was given that only merged results have."""
    named = [f"--{name}" for name, value in given.items() if value is not None]
    named += ["--format parquet"] if style is ResultFormat.PARQUET else []
    if named:
        raise BadOption(f"{named[0]} is for merged results: leave out --layer {layer.value}, or {named[0]}")


def _merged(asked: Query, style: ResultFormat) -> None:
    """Print an answer; except for a table, in bounded memory."""
    from sluice.cli.output.rows import for_people
    from sluice.results import formats
    from sluice.results.layers import StoredLayers
    from sluice.results.reader import read
    from sluice.runtime.settings import get_settings

    (answer,) = read(StoredLayers(get_settings()), asked)
    if style is ResultFormat.TABLE:
        write(*for_people(answer.schema, answer.batches(), answer.metrics), Format.TABLE)
        _say_recounted(answer)
        return
    out = sys.stdout.buffer
    if style is ResultFormat.PARQUET and out.isatty():
        raise BadOption("--format parquet is no text: write it to a file with > FILE")
    if style is ResultFormat.PARQUET:
        formats.write_parquet(answer.schema, answer.batches(), out)
    else:
        as_text = formats.csv if style is ResultFormat.CSV else formats.json_rows
        out.writelines(as_text(answer.schema, answer.batches()))
    out.flush()
    _say_recounted(answer)


def _say_recounted(answer: ResultsAnswer) -> None:
    """Name the periods that have no rows because they are being counted again."""
    starts = answer.recounted
    if not starts:
        return
    first, last = (dt.datetime.fromtimestamp(ms / 1000, dt.UTC) for ms in (starts[0], starts[-1]))
    when = f"{first:%Y-%m-%dT%H:%M:%SZ}" + (f" to {last:%Y-%m-%dT%H:%M:%SZ}" if len(starts) > 1 else "")
    noun = "period is" if len(starts) == 1 else "periods are"
    typer.echo(
        f"{len(starts)} {noun} being counted again from the archive ({when}): `sluice rebuild "
        f"{answer.task.spec.topic} --list` shows how far it is",
        err=True,
    )


def _of_layer(
    name: str,
    layer: Layer,
    when: tuple[int | None, int | None],
    version: int | None,
    style: Format,
) -> None:
    """Print the results of one layer as it stored them."""
    from sluice.cli.output.rows import layer_for_people, layer_for_programs
    from sluice.results.layer_results import ResultLayer, each_result, layer_results
    from sluice.results.layers import find
    from sluice.results.periods import within
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    task = find(settings, name, version)
    stored = each_result(layer_results(settings, task, ResultLayer(layer), within(*when)))
    write(*(layer_for_people if style is Format.TABLE else layer_for_programs)(task, stored), style)


def sql(
    statement: Annotated[
        str | None, typer.Argument(metavar="STATEMENT", help="One statement, in quotes.")
    ] = None,
    *,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
    list_: Annotated[
        bool, typer.Option("--list", help="Show everybody's statements that run, oldest first.")
    ] = False,
    cancel: Annotated[
        str | None, typer.Option(metavar="ID", help="End a statement; --list shows their ids.")
    ] = None,
) -> None:
    """Run one SQL statement against Hive, in the database `sluice`; or see and end those that run.

    The tables: raw (the master dataset), logs (parsed, doubles removed), task_results, reconciliations.
    The statement runs as the platform's own user, who may also change and drop tables; analysts get users of
    their own, who may only read (docs/analysts.md, docs/security.md).

    Examples:
      sluice sql "SHOW TABLES"
      sluice sql "SELECT status, count(*) FROM logs GROUP BY status ORDER BY status"
      sluice sql "SELECT day, sum(bytes) FROM logs WHERE topic = 'logs' GROUP BY day" --format csv
      sluice sql --list
      sluice sql --cancel 2f
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.hive import Hive, SqlFailed
    from sluice.storage.tables import statements

    if [statement is not None, list_, cancel is not None].count(True) != 1:
        raise BadOption("give one of these: a STATEMENT in quotes, --list, --cancel ID")
    if list_:
        found = statements.running(get_settings())
        write(_STATEMENT, [tuple(getattr(each, name) for name in _STATEMENT) for each in found], style)
        return
    if cancel is not None:
        _cancel(cancel)
        return
    assert statement is not None  # noqa: S101 - one of the three was given

    with Hive(get_settings()) as hive:
        try:
            answer = hive.query(statement)
        except SqlFailed as error:
            if NO_NUMBER not in str(error):
                raise
            raise StatementFailed(f"{error}\n  {TEXT}") from None
    write(answer.columns, answer.rows, style)
