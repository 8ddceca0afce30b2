"""`sluice lab transmission`: assignors of consumer groups, asked and on live brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.format import Format, write

if TYPE_CHECKING:
    from sluice.lab.transmission.experiments import Plan

_QUICK_RUNS = 1


def transmission(
    *,
    runs: Annotated[int, typer.Option(min=1, help="How many of each contender on live brokers.")] = 3,
    scenarios: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Those to run on live brokers; none: no brokers. Default: all."
        ),
    ] = "",
    quick: Annotated[
        bool, typer.Option("--quick", help="One short run of paper 003's scenario; the page is not written.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--page", help="Measure nothing: write the page from what was kept.")
    ] = False,
) -> None:
    """Compare assignors of consumer groups: Kafka's and Sluice's own.

    First each assignor's own class is asked what it makes of each scenario. Then three brokers and the
    consumers are started on this machine, and every contender runs every live scenario, taking turns. The
    rows stay in docs/transmission, and docs/transmission.md is made from them. Three runs of all take about
    50 minutes, 30 runs about 8 hours; the command says at its start how long it will take. The bars are
    printed; the command exits with 1 if one fails.

    Examples:
      sluice lab transmission --quick
      sluice lab transmission --runs 5 --scenarios paper,skew
      sluice lab transmission --page
    """
    from sluice.lab.transmission import experiments, page
    from sluice.lab.transmission.bars import bars

    wanted = _scenarios(scenarios, experiments.LIVE)
    if quick:
        _quick()
        return
    if not again:
        experiments.compute()
        _measure(experiments.Plan(scenarios=wanted, runs=runs))
    typer.echo(f"wrote {page.write()}", err=True)
    found = bars(page.load())
    write(
        ("bar", "found", "holds"),
        [[bar.name, bar.figure, "yes" if bar.holds else "NO"] for bar in found],
        Format.TABLE,
    )
    if not all(bar.holds for bar in found):
        raise typer.Exit(1)


def _measure(plan: Plan) -> None:
    from sluice.lab.transmission import experiments

    if plan.scenarios:
        typer.echo(f"on live brokers: about {experiments.minutes(plan):.0f} minutes", err=True)
        experiments.measure(plan)


def _scenarios(names: str, known: tuple[str, ...]) -> tuple[str, ...]:
    if names == "none":
        return ()
    wanted = tuple(name for name in names.split(",") if name) or known
    if unknown := set(wanted) - set(known):
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: use {', '.join(known)} or none", param_hint="--scenarios"
        )
    return wanted


def _quick() -> None:
    from sluice.lab.transmission import experiments

    plan = experiments.Plan(scenarios=("paper",), runs=_QUICK_RUNS, times=experiments.QUICK)
    rows = experiments.live(plan).live
    columns = ("strategy", "step", "partitions", "moved", "living", "worst", "balanced", "rate", "twice")
    write(columns, [[_short(row[column]) for column in columns] for row in rows], Format.TABLE)


def _short(value: str | int | float) -> str | int | float:
    return round(value, 2) if isinstance(value, float) else value
