"""Figures of many runs: medians with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb
from statistics import median
from typing import NamedTuple

from sluice_lab.tables import selected, shown
from sluice_lab.trials import Row

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
