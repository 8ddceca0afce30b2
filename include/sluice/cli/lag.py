"""`sluice lag`: how far the platform's consumers are behind."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.errors import explain
from sluice.cli.output.format import plain, table
from sluice.cli.output.terminal import CLEAR, steer

if TYPE_CHECKING:
    from sluice.monitoring.lag.consumer_lag import Behind, LagReport, ShownRebalance

#: Between two looks of --watch.
WATCH_SECONDS = 2.0
_FIGURES = ("records", "oldest", "arriving/s", "processed/s", "catches up in")


def lag(
    topic: Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only this topic.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every two seconds, also after an error.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON; with --watch a line for each look.")
    ] = False,
) -> None:
    """Show how far the archiver and the speed layer are behind, by topic, member and partition.

    records: that wait. oldest: how long the oldest of them has waited. Rates are records a second over the
    last minute. "never" catches up: at these rates, more come than are processed. "?" is not known.

    It also shows the last rebalances of the archiver's groups: why, which partitions moved, and how long each
    of them stood still; "?" if the next rebalance came before it was read.

    \b
    Examples:
      sluice lag
      sluice lag logs --watch
      sluice lag --json
    """
    from kafka.errors import KafkaError
    from sqlalchemy.exc import SQLAlchemyError

    from sluice.monitoring.lag.measurement import lag_report
    from sluice.runtime.settings import get_settings

    settings = get_settings()
    if not watch:
        report = lag_report(settings, topic)
        typer.echo(_json(report, indent=1) if as_json else shown(report), nl=as_json)
        raise typer.Exit(int(bool(report.problems)))
    while True:
        try:
            report = lag_report(settings, topic)
        except (KafkaError, SQLAlchemyError, OSError) as error:
            known = explain(error)
            why = known.message if known else (str(error).splitlines() or [type(error).__name__])[0]
            typer.echo(f"not known now: {why}", err=True)
        else:
            if not as_json:
                steer(CLEAR)
            typer.echo(_json(report) if as_json else shown(report), nl=as_json)
        time.sleep(WATCH_SECONDS)


def _json(report: LagReport, indent: int | None = None) -> str:
    return json.dumps(plain(report.document()), indent=indent)


def shown(report: LagReport) -> str:
    """The report for people; only the problems if there is nothing else."""
    problems = [f"{topic}: {said}\n" for topic, said in report.problems.items()]
    if problems and not (report.partitions or report.rebalances):
        return "".join(problems)
    parts = [table(("topic", "consumer", *_FIGURES), [(*to, *_cells(b)) for *to, b in report.by_topic()])]
    rows = [
        (topic, consumer, member, " ".join(map(str, partitions)), *_cells(behind))
        for topic, consumer, member, partitions, behind in report.by_member()
    ]
    parts.append(table(("topic", "consumer", "member", "partitions", *_FIGURES), rows))
    each = [
        (one.topic, one.consumer, one.partition, one.member or "nobody", *_cells(one.behind))
        for one in report.partitions
    ]
    parts.append(table(("topic", "consumer", "partition", "member", *_FIGURES), each))
    if report.rebalances:
        columns = ("rebalance", "topic", "member", "why", "gained", "lost", "stood still")
        parts.append(table(columns, [_rebalance(one) for one in report.rebalances]))
    return "\n".join([*parts, *problems])


def _cells(behind: Behind) -> tuple[Any, ...]:
    return (
        behind.records,
        _span(behind.seconds, "?"),
        f"{behind.arriving:,.1f}",
        "?" if behind.processed is None else f"{behind.processed:,.1f}",
        _span(behind.catch_up, "?" if behind.processed is None else "never"),
    )


def _rebalance(one: ShownRebalance) -> tuple[Any, ...]:
    gained, lost = (" ".join(map(str, numbers)) or None for numbers in (one.gained, one.lost))
    still = ", ".join(f"{number}: {_span(seconds, '?')}" for number, seconds in one.by_partition.items())
    return one.at.replace(microsecond=0), one.topic, one.member, one.why, gained, lost, still or None


def _span(seconds: float | None, unknown: str) -> str:
    if seconds is None:
        return unknown
    minutes, hours = 60, 3600
    if seconds < minutes:
        return f"{seconds:.1f} s"
    return f"{seconds / minutes:.1f} min" if seconds < hours else f"{seconds / hours:.1f} h"
