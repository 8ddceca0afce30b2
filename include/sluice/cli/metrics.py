"""`sluice metrics`: what a task can ask for."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.output.format import Format, write

_MEASURE = {"none": "nothing", "number": "a number", "any": "a number or a text"}


def metrics(
    style: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TABLE,
) -> None:
    """Show every metric that a task can name, its measure, and whether it is estimated.

    p50 and top10 stand for all quantiles and all lists of the most frequent values. A team's own metrics come
    from the Python files in include/metrics; a file that could not be loaded is named with the reason, and
    the exit code is 1.

    Example:
      sluice metrics --format csv
    """
    from sluice.metrics.registry import METRICS, metric, team

    built_in = (*METRICS.values(), metric("p50"), metric("top10"))
    rows = [
        (each.name, _MEASURE[each.measure], "estimated" if each.sketched else "exact", whose, each.about)
        for whose, some in (("Sluice", built_in), ("team", team().metrics.values()))
        for each in some
    ]
    write(("metric", "computed of", "result", "by", "what it is"), rows, style)
    for file, why in team().problems.items():
        typer.echo(f"{file} is not loaded: {why}", err=True)
    if team().problems:
        raise typer.Exit(1)
