"""`sluice grouping ...`, `sluice hotkeys`: how lines reach workers, and which keys are hot.

Both read what the running speed layer reports about itself.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.output.format import Format, write
from sluice.cli.output.grouping_text import explained, hot_keys
from sluice.cli.output.terminal import CLEAR, steer

if TYPE_CHECKING:
    from sluice.speed.routed.report import GroupingReport, HotKeyReport

WATCH_SECONDS = 2.0

app = typer.Typer(
    help="How tasks' lines are distributed to workers, and why: explain, strategies.", no_args_is_help=True
)

Name = Annotated[
    str | None,
    typer.Argument(metavar="[TASK]", help="One task, as `sluice tasks list` shows it. Default: all of them."),
]


@app.command()
def explain(
    name: Name = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list, for programs.")] = False,
) -> None:
    """Show what each task is grouped by, and the figures that led to it.

    A task, or its topic, names a strategy with `grouping:`; auto, the default, chooses combine, key or
    planned by what the last batches measured. Results never depend on the strategy.

    Examples:
      sluice grouping explain
      sluice grouping explain hits_by_client --json
    """
    found = _reports(name)
    if as_json:
        documents = [report.model_dump(mode="json", exclude={"hot"}) for report in found]
        typer.echo(json.dumps(documents, indent=1, ensure_ascii=False))
        return
    for number, report in enumerate(found):
        typer.echo("\n" * bool(number) + f"{report.task} ({report.label}, topic {report.topic})")
        for title, text in explained(report):
            typer.echo(f"  {title:<11}{text}")


@app.command()
def strategies(
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Show every strategy that a task or a topic can name, with its parameters' defaults.

    Example:
      sluice grouping strategies --format csv
    """
    from importlib import import_module

    from sluice.grouping import STRATEGIES
    from sluice.tasks.grouping import AUTO

    auto = import_module("sluice.grouping.auto")
    rows = [(AUTO, "", _first_line(auto.__doc__))]
    for name, kind in STRATEGIES.items():
        parameters = " ".join(f"{each.name}={each.default}" for each in fields(kind))
        rows.append((name, parameters, _first_line(sys.modules[kind.__module__].__doc__)))
    write(("strategy", "parameters", "what it is"), rows, style)


def hotkeys(
    name: Name = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show them again every two seconds.")] = False,
    style: Annotated[Format, typer.Option("--format", help="How to print them.")] = Format.TABLE,
) -> None:
    """Show each task's most frequent keys: share of its lines, error, and workers.

    Shares are of the lines in the last batches; a batch counts half as much after eight more batches. A share
    is too low by at most its error. Below the keys follow, for each task whose lines are routed to workers,
    the plan if there is one, the workers' loads, and the loads' imbalance (max / mean - 1). Other tasks have
    no workers.

    Examples:
      sluice hotkeys
      sluice hotkeys hits_by_client --watch
      sluice hotkeys --format csv
    """
    if not watch:
        _print(_reports(name), style)
        return
    while True:
        found = _reports(name)
        steer(CLEAR)
        _print(found, style)
        time.sleep(WATCH_SECONDS)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _reports(name: str | None) -> list[GroupingReport]:
    from sluice.runtime.settings import get_settings
    from sluice.speed.routed.report import NothingCounted, reports
    from sluice.stack.jobs import speed_layer

    try:
        return reports(speed_layer(get_settings()), name)
    except NothingCounted:
        if name is not None:
            _require(name)
        raise


def _require(name: str) -> None:
    """Raise UnknownTask if there is no task of that name; if PostgreSQL is away, nobody knows."""
    from sqlalchemy.exc import OperationalError

    from sluice.runtime.settings import get_settings
    from sluice.storage.postgres import engine
    from sluice.tasks.store import TaskStore

    with suppress(OperationalError):
        TaskStore(engine(get_settings())).get(name)


def _print(found: list[GroupingReport], style: Format) -> None:
    if style is Format.TABLE:
        typer.echo(hot_keys(found), nl=False)
        return
    names = ("task", "id", "grouping", "key", "share", "error", "workers", "imbalance", "imbalance_hour")
    write(names, [_row_for_programs(report, hot) for report in found for hot in report.hot], style)


def _row_for_programs(report: GroupingReport, hot: HotKeyReport) -> tuple[Any, ...]:
    balance = report.imbalance
    return (
        report.task,
        report.label,
        report.strategy,
        list(hot.key),
        hot.share,
        hot.error,
        list(hot.workers),
        None if balance is None else balance.last,
        None if balance is None else balance.hour,
    )
