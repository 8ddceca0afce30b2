"""`sluice lab transmission`: assignors of consumer groups, asked and on live brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.output.format import Format, write
from sluice_lab.commands.report import report

if TYPE_CHECKING:
    from sluice_lab.transmission.experiments import GroupPlan
    from sluice_lab.trials import Row

_QUICK_RUNS = 1
_RUNS = 3
_RATE = 3.9


def transmission(
    *,
    runs: Annotated[int, typer.Option(min=1, help="How many of each contender on live brokers.")] = _RUNS,
    scenarios: Annotated[
        str,
        typer.Option(
            metavar="NAME,...", help="Those to run on live brokers; none: no brokers. Default: all."
        ),
    ] = "",
    rate: Annotated[
        float, typer.Option(min=0.1, help="MB a second that arrive in all partitions of the paper's group.")
    ] = _RATE,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="First forget the kept runs of these scenarios.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One short run of paper 003's scenario; nothing is kept.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--page", help="Measure nothing: write the page from what was kept.")
    ] = False,
) -> None:
    """Compare assignors of consumer groups: Kafka's and Sluice's own.

    First each assignor's own class is asked what it makes of each scenario. Then three brokers and the
    consumers are started on this machine, and every contender runs every live scenario, taking turns. A step
    waits until the group is stable. Runs are kept in docs/transmission, all of a scenario at one rate, and
    docs/transmission.md is made from them. A command that was stopped goes on where it was: without --fresh,
    only runs that are missing, or in which the group did not become stable, are measured. It says first how
    long that takes: three runs of all about 100 minutes, 30 runs about 16 hours. Its tables and the bars are
    printed; it exits with 1 if a bar fails.

    Examples:
      sluice lab transmission --quick
      sluice lab transmission --runs 5 --scenarios paper,skew
      sluice lab transmission --runs 30 --scenarios paper --fresh
      sluice lab transmission --scenarios skew --rate 2 --fresh
      sluice lab transmission --page
    """
    from sluice_lab.transmission import experiments, page
    from sluice_lab.transmission.bars import bars

    _refuse_others(again, quick, bool(scenarios or fresh or runs != _RUNS or rate != _RATE))
    if quick:
        _quick()
        return
    if not again:
        wanted = _scenarios(scenarios, experiments.LIVE)
        _measure(experiments.GroupPlan(scenarios=wanted, runs=runs, arrives=rate * 1e6), fresh)
    report(page.write(), bars(page.load()))


def _refuse_others(again: bool, quick: bool, others: bool) -> None:
    """--page and --quick go with no other option."""
    if again and (others or quick):
        raise typer.BadParameter("it measures nothing, so it goes with no other option", param_hint="--page")
    if quick and others:
        raise typer.BadParameter("it is one run of paper and takes no other option", param_hint="--quick")


def _measure(plan: GroupPlan, fresh: bool) -> None:
    from sluice_lab.transmission import experiments
    from sluice_lab.transmission.runs import GroupRuns

    runs = GroupRuns(experiments.FOLDER)
    if fresh:
        runs.forget(plan.scenarios)
    elif others := runs.other_rates(plan.scenarios, plan.arrives):
        raise typer.BadParameter(
            f"the kept runs of {', '.join(others)} have another one: forget them with --fresh",
            param_hint="--rate",
        )
    experiments.compute()
    keys = experiments.missing(plan, runs)
    if keys:
        minutes = experiments.minutes(keys, plan)
        typer.echo(f"on live brokers: {len(keys)} runs, about {minutes:.0f} minutes", err=True)
        experiments.measure(plan, runs)


def _scenarios(names: str, known: tuple[str, ...]) -> tuple[str, ...]:
    if names == "none":
        return ()
    wanted = tuple(name for name in names.split(",") if name) or known
    if unknown := set(wanted) - set(known):
        raise typer.BadParameter(
            f"{', '.join(sorted(unknown))}: use {', '.join(known)} or none", param_hint="--scenarios"
        )
    return tuple(dict.fromkeys(wanted))


def _quick() -> None:
    from sluice_lab.transmission import experiments, measures

    plan = experiments.GroupPlan(scenarios=("paper",), runs=_QUICK_RUNS, times=experiments.QUICK)
    rows: list[Row] = []
    for key, log in experiments.live(plan, plan.order()):
        rows += measures.rows(log, key.run)
        for problem in log.problems:
            typer.echo(problem, err=True)
    columns = ("strategy", "step", "partitions", "moved", "living", "worst", "balanced", "rate", "twice")
    write(columns, [[_short(row[column]) for column in columns] for row in rows], Format.TABLE)


def _short(value: str | int | float) -> str | int | float:
    return round(value, 2) if isinstance(value, float) else value
