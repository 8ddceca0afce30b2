"""Figures of runs whose steps are taken together, and of the partitions of all runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median

from sluice_lab.trials import Row


def together(rows: Iterable[Row]) -> list[Row]:
    """A row for each run with all steps of it, without its start.

    Moves are summed, standstill and balancing are the worst, load and partitions are the last, the rest is
    the mean.
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
            "partitions": steps[-1]["partitions"],
            **{figure: sum(int(row[figure]) for row in steps) for figure in ("moved", "living")},
            "p50": median(float(row["p50"]) for row in steps),
            **{figure: max(float(row[figure]) for row in steps) for figure in ("worst", "balanced")},
            **{figure: mean(float(row[figure]) for row in steps) for figure in ("rate", "cpu")},
            "twice": steps[-1]["twice"],
        }
        for (name, run), steps in found.items()
    ]


def quantile(values: Iterable[float], part: float) -> float:
    """The value that this part of at least one value does not exceed, or the next greater one."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def of_all_runs(live: Sequence[Row], stood: Sequence[Row]) -> bool:
    """Whether the standstill of each partition was kept for all of these runs."""
    kept = {(row["strategy"], row["run"]) for row in stood}
    return bool(live) and all((row["strategy"], row["run"]) in kept for row in live)
