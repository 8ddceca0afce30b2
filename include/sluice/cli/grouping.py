"""`sluice grouping ...` and `sluice hotkeys`: how lines are dealt out to workers, and which keys are hot.

Both read what the running speed layer says of itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cli.format import Format, write

if TYPE_CHECKING:
    from sluice.statistics.grouped.report import DecisionReport, GroupingReport, HotKeyReport

WATCH_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[2J"
#: Workers whose loads are written out.
_LOADS = 8

app = typer.Typer(
    help="How tasks' lines are dealt out to workers, and why: explain, strategies.", no_args_is_help=True
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

    A task, or its topic, names a strategy with `grouping:`; auto, the default, chooses among combine, key and
    planned by what the last batches measured. Results never depend on it.

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
        for title, text in _explained(report):
            typer.echo(f"  {title:<11}{text}")


@app.command()
def strategies(
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Show every strategy that a task or a topic can name, and its parameters with their defaults.

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
    """Show each task's most frequent keys: share of its lines, error of that, and the workers that have them.

    Shares are of the last batches, each of which counts half as much after eight more; a share is too low by
    at most its error. Below the keys stand the workers' loads and their imbalance, max / mean - 1, of tasks
    whose lines are routed to workers; others have no workers.

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
        if sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        _print(found, style)
        time.sleep(WATCH_SECONDS)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0]


def _reports(name: str | None) -> list[GroupingReport]:
    from sluice.settings import get_settings
    from sluice.statistics.grouped.report import reports
    from sluice.statistics.progress import progress_path

    return reports(progress_path(get_settings()), name)


def _explained(report: GroupingReport) -> Iterator[tuple[str, str]]:
    asked = report.asked if isinstance(report.asked, str) else json.dumps(report.asked)
    yield "asked", asked
    decision = report.decision
    yield "grouped by", report.strategy + (f": {decision.reason}" if decision else "")
    if report.error is not None:
        yield "error", report.error
    if decision is not None and decision.figures is not None:
        yield from _measured(decision)
    yield from _balance(report)


def _measured(decision: DecisionReport) -> Iterator[tuple[str, str]]:
    estimates = sorted(decision.estimates.items(), key=lambda each: each[1])
    yield "a batch", ", ".join(f"{name} {seconds:.3g} s" for name, seconds in estimates) + " (estimated)"
    figures = decision.figures
    if figures is None:
        return
    distinct = figures.groups / max(1, figures.tuples)
    yield "tuples", f"{figures.tuples:,} in {figures.groups:,} series ({distinct:.2%} distinct)"
    yield "combined", f"{figures.rows:,.0f} partial aggregates of {figures.state:,.0f} bytes"
    yield "cost", f"{figures.cost * 1e6:.3g} us a tuple"
    yield "skew", f"{figures.top:.2%} for the hottest key, {figures.widest:.0%} for the largest source"


def _balance(report: GroupingReport) -> Iterator[tuple[str, str]]:
    if report.imbalance is None:
        return
    found = report.imbalance
    worst = f"{found.hour:.2%} over the last hour, {found.worst:.2%} at worst"
    yield "imbalance", f"{found.last:.2%} in the last batch, {worst}"
    total = sum(each.tuples * each.time for each in report.load) or 1.0
    busiest = sorted(report.load, key=lambda each: -each.tuples * each.time)
    shown = [f"{each.worker}: {each.tuples * each.time / total:.1%}" for each in busiest[:_LOADS]]
    more = len(busiest) - len(shown)
    yield "load", ", ".join(shown) + (f" and {more} more workers" if more else "")


def _print(found: list[GroupingReport], style: Format) -> None:
    pairs = [(report, hot) for report in found for hot in report.hot]
    if style is Format.TABLE:
        columns = ("task", "grouping", "key", "share", "error", "workers")
        write(columns, [_row_for_people(*each) for each in pairs], style)
        for report in found:
            for title, text in _balance(report):
                typer.echo(f"{report.task}: {title} {text}")
        return
    names = ("task", "id", "grouping", "key", "share", "error", "workers", "imbalance", "imbalance_hour")
    write(names, [_row_for_programs(*each) for each in pairs], style)


def _row_for_people(report: GroupingReport, hot: HotKeyReport) -> tuple[Any, ...]:
    key = hot.key[0] if len(hot.key) == 1 else list(hot.key)
    workers = ",".join(map(str, hot.workers)) or None
    return report.task, report.strategy, key, f"{hot.share:.2%}", f"{hot.error:.2%}", workers


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
