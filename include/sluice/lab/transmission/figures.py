"""Figures of many runs: medians with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from statistics import mean, median
from typing import NamedTuple

from sluice.lab.tables import selected, shown
from sluice.lab.trials import Row

CONFIDENCE = 0.95


class Median(NamedTuple):
    """A median, and the interval that holds the true one with a confidence of 95 %.

    The interval comes from the order of the values alone. With fewer than six values it is all of them.
    """

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        middle, low, high = map(shown, self)
        return middle if low == high else f"{middle} ({low} to {high})"


def of(values: Sequence[float]) -> Median:
    """The median of at least one value."""
    ordered = sorted(values)
    count = len(ordered)
    below, out = 0, (1 - CONFIDENCE) / 2
    # The k-th value from either end is outside the true median with the chance of at most k-1 heads.
    while below + 1 < count / 2 and sum(comb(count, n) for n in range(below + 2)) / 2**count <= out:
        below += 1
    return Median(median(ordered), ordered[below], ordered[count - 1 - below])


def over_runs(rows: Iterable[Row], figure: str, **labels: str) -> Median:
    """The median of a figure over the rows with these labels."""
    return of([float(row[figure]) for row in selected(rows, **labels)])


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
