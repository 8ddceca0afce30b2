"""`sluice results` and `sluice sql`: what was counted, from HBase and from Hive."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Annotated

import typer

from sluice.cli.format import Format, write


class Layer(StrEnum):
    ONLINE = "online"
    OFFLINE = "offline"
    MERGED = "merged"


class BadMoment(ValueError):
    """A point in time that could not be read."""


def moment(text: str | None) -> int | None:
    """Milliseconds since the epoch for a day or a time in ISO 8601.

    A time without an offset is in UTC. Raises BadMoment.
    """
    if text is None:
        return None
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        raise BadMoment(
            f"{text!r} is no time: write a day (2015-05-17) or a time (2015-05-17T10:05:00, or with "
            "an offset, +02:00; UTC without one)"
        ) from None
    when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
    return int(when.timestamp() * 1000)


def results(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task's name; `sluice tasks list` shows them.")
    ],
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Periods that start at or after this day or time (UTC)."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="Periods that start before this day or time (UTC)."),
    ] = None,
    layer: Annotated[
        Layer,
        typer.Option(
            help="online: the speed layer's counts, in HBase. offline: the batch layer's, in Hive. "
            "merged: the published final count where there is one, else the online one."
        ),
    ] = Layer.MERGED,
    version: Annotated[
        int | None, typer.Option(metavar="N", help="A version of the task; default: the current one.")
    ] = None,
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Print what a task counted: a row for each period and combination of dimension values.

    A sketched value (unique, quantiles, top-k) that is not exact is shown with its stated error, ±. The error
    of unique is relative to the value; that of a quantile is in the measure's unit, that of top-k in counts.
    csv and json have a column for each error, <metric>_error. If a task has a time zone, its periods are
    printed in that zone.

    Examples:
      sluice results hits_by_status
      sluice results hits_by_status --from 2015-05-17 --to 2015-05-18 --layer online
      sluice results hits_by_status --format csv | awk -F, 'NR>1 {n[$2]+=$3} END {for (s in n) print s, n[s]}'
      sluice results bytes_by_path --layer offline --format json
    """
    from sluice.results.counted import counted
    from sluice.runtime.settings import get_settings

    answer = counted(
        get_settings(), task, layer.value, version=version, since=moment(since), until=moment(until)
    )
    columns, rows = answer.for_people() if style is Format.TABLE else answer.for_programs()
    write(columns, rows, style)


def sql(
    statement: Annotated[str, typer.Argument(metavar="STATEMENT", help="One statement, in quotes.")],
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Run one SQL statement against Hive, in the database `sluice`.

    The tables: raw (the master dataset), logs (parsed, doubles removed), task_results, reconciliations.

    Examples:
      sluice sql "SHOW TABLES"
      sluice sql "SELECT status, count(*) FROM logs GROUP BY status ORDER BY status"
      sluice sql "SELECT day, sum(bytes) FROM logs WHERE topic = 'logs' GROUP BY day" --format csv
    """
    from sluice.runtime.settings import get_settings
    from sluice.storage.hive import Hive

    with Hive(get_settings()) as hive:
        answer = hive.query(statement)
    write(answer.columns, answer.rows, style)
