"""Figures of runs whose steps are taken together."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean, median

from sluice.lab.trials import Row


def together(rows: Iterable[Row]) -> list[Row]:
    """A row for each run with all steps of it, without its start.

    Moves are summed, standstill and balancing are the worst, the load is the last, the rest is the mean.
    """
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["step"] != "start":
            found.setdefault((str(row["strategy"]), int(row["run"])), []).append(row)
    return [
        {
            "strategy": name,
            "run": run,
            "load": steps[-1]["load"],
            "moved": sum(int(row["moved"]) for row in steps),
            "p50": median(float(row["p50"]) for row in steps),
            **{figure: max(float(row[figure]) for row in steps) for figure in ("p99", "worst", "balanced")},
            **{figure: mean(float(row[figure]) for row in steps) for figure in ("rate", "cpu")},
            "twice": steps[-1]["twice"],
        }
        for (name, run), steps in found.items()
    ]
