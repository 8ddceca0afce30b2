"""`sluice lab placement`: schedulers and migrations of units on hosts, computed."""

from __future__ import annotations

from typing import Annotated

import typer

from sluice.cli.format import Format, write


def placement(
    *,
    inputs: Annotated[
        int, typer.Option(min=1, help="Random clusters on which all contenders are compared.")
    ] = 1_000,
    optima: Annotated[
        int, typer.Option(min=1, help="Small ones of them for which the optimum is computed.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Which random clusters.")] = 1,
    again: Annotated[
        bool, typer.Option("--page", help="Compute nothing: write the page from what was kept.")
    ] = False,
) -> None:
    """Compare placements of units on hosts: paper 004's, other systems' and Sluice's own.

    It computes paper 004's experiment, then every contender on random clusters, an optimum by integer
    programs for the small ones, and how long a plan for 200 hosts and 2,000 units takes. The figures stay in
    docs/placement, and docs/placement.md is made from them. The bars are printed; the command exits with 1 if
    one fails. No unit is started or moved.

    Examples:
      sluice lab placement --inputs 100 --optima 20 --seed 7
      sluice lab placement --page
    """
    from sluice.lab.placement import experiments, page
    from sluice.lab.placement.bars import bars

    if not again:
        experiments.compute(inputs=inputs, optima=optima, seed=seed)
    typer.echo(f"wrote {page.write()}", err=True)
    found = bars(page.load())
    write(
        ("bar", "found", "holds"),
        [[bar.name, bar.figure, "yes" if bar.holds else "NO"] for bar in found],
        Format.TABLE,
    )
    if not all(bar.holds for bar in found):
        raise typer.Exit(1)
