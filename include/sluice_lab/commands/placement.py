"""`sluice lab placement`: schedulers and migrations of units on hosts, computed and with units that run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.output.format import Format, write
from sluice_lab.commands.report import report

_LIVE_RUNS = 3
_LIVE = "sluice_lab.placement.live"


Inputs = Annotated[
    int,
    typer.Option(min=0, help="Random clusters on which all contenders are compared; 0: compute nothing."),
]
Optima = Annotated[int, typer.Option(min=1, help="Small ones of them for which the optimum is computed.")]
Seed = Annotated[int, typer.Option(min=0, help="Which random clusters.")]
LiveRuns = Annotated[
    int, typer.Option(min=0, help="How many of each scenario with units that run; 0: none run.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="First forget the kept runs of units.")]
Quick = Annotated[
    bool, typer.Option("--quick", help="One short run of each scenario, of units that run; nothing is kept.")
]
Again = Annotated[bool, typer.Option("--page", help="Measure nothing: write the page from what was kept.")]


def placement(
    *,
    inputs: Inputs = 1_000,
    optima: Optima = 200,
    seed: Seed = 1,
    live_runs: LiveRuns = _LIVE_RUNS,
    fresh: Fresh = False,
    quick: Quick = False,
    again: Again = False,
) -> None:
    """Compare placements of units on hosts: paper 004's, other systems' and Sluice's own.

    It computes paper 004's experiment, then every contender on random clusters, an optimum by integer
    programs for the small ones, and how long a plan for 200 hosts and 2,000 units takes. Then it tries the
    experiment with units that run: ten Flume collectors on five emulated hosts of this machine, in a network
    of their own. They are placed, hosts join, and what the DAG `placement` runs moves units while lines come.
    That takes about 3 GiB, and about 10 minutes a run of all scenarios. Each run is kept when it is over, and
    a command that was stopped goes on with the runs that are missing.

    The figures stay in docs/placement, and docs/placement.md is made from them. Its tables and the bars are
    printed; the command exits with 1 if a bar fails.

    Examples:
      sluice lab placement --inputs 100 --optima 20 --seed 7
      sluice lab placement --live-runs 0
      sluice lab placement --inputs 0 --live-runs 5 --fresh
      sluice lab placement --quick
      sluice lab placement --page
    """
    from sluice_lab.placement import experiments, page
    from sluice_lab.placement.bars import bars

    if quick and (again or fresh):
        raise typer.BadParameter("it keeps nothing, so it goes with no such option", param_hint="--quick")
    if again and fresh:
        raise typer.BadParameter("it measures nothing", param_hint="--page")
    if quick:
        _quick()
        return
    if inputs and not again:
        experiments.compute(inputs=inputs, optima=optima, seed=seed)
    if not again:
        _live(live_runs, fresh)
    report(page.write(), bars(page.load()))


def _live(runs: int, fresh: bool) -> None:
    """Do the runs that are not kept yet. Raises Exit if they end early."""
    from sluice_lab.placement import experiments
    from sluice_lab.placement.live import experiments as live
    from sluice_lab.placement.live.scenarios import SCENARIOS

    kept, plan = live.LiveRuns(experiments.FOLDER), live.LivePlan(runs)
    if fresh:
        kept.forget(SCENARIOS)
    if keys := live.missing(plan, kept):
        minutes = live.minutes(keys, plan.times)
        typer.echo(f"units that run: {len(keys)} runs, about {minutes:.0f} minutes", err=True)
        _apart(experiments.FOLDER, str(runs))


def _apart(folder: Path, *arguments: str) -> None:
    from sluice_lab.placement.live import apart

    if status := apart.call(_LIVE, [str(folder), *arguments]):
        raise typer.Exit(status)


def _quick() -> None:
    from sluice_lab.placement.live.experiments import load

    with tempfile.TemporaryDirectory() as folder:
        _apart(Path(folder), "1", "quick")
        rows = load(Path(folder))
    columns = ("scenario", "step", "slots", "rate", "p50", "p99", "lost", "twice", "uneven")
    write(
        columns, [[_short(row.get(column, "")) for column in columns] for row in rows["live"]], Format.TABLE
    )


def _short(value: str | int | float) -> str | int | float:
    return round(value, 2) if isinstance(value, float) else value
