"""Our figures in the form of the papers' figures, computed from rows of experiments."""

from __future__ import annotations

import numpy as np

from sluice_lab import papers
from sluice_lab.tables import Cell, Measured, TextTable, selected

_PERCENT = 100


def shares(measured: Measured, stream: str, strategy: str) -> list[float]:
    """Our figures for table 2 of paper 000, by number of workers.

    Each is (max - mean) / sum in percent, the mean of all hash seeds.
    """
    rows = selected(measured["table_2"], stream=stream, strategy=strategy)
    return [
        float(np.mean([row["share"] for row in selected(rows, workers=workers)])) * _PERCENT
        for workers in papers.WIDTHS
    ]


def table_2(measured: Measured, stream: str) -> TextTable:
    """The paper's rows and ours, and how KG2 compares with key in each."""
    printed = papers.IMBALANCE[stream]
    ours = {name: shares(measured, stream, name) for name in printed}
    rows: list[list[Cell]] = []
    for name in printed:
        rows += [[f"{name}, paper", *printed[name]], [f"{name}, ours", *ours[name]]]
    for whose, of in (("paper", printed), ("ours", ours)):
        rows.append([f"kg2 / key, {whose}", *np.divide(of["kg2"], of["key"]).tolist()])
    return TextTable([stream.upper(), *(f"W = {w}" for w in papers.WIDTHS)], rows)


def held_ratio(measured: Measured) -> dict[int, float]:
    """KG2's memory over shuffle's, in keys held, by the number of tuples so far."""
    kg2, shuffle = (
        {int(row["total"]): float(row["held"]) for row in selected(measured["memory"], strategy=name)}
        for name in ("kg2", "shuffle")
    )
    return {total: held / shuffle[total] for total, held in kg2.items()}


def throughput(measured: Measured, stream: str, strategy: str) -> float:
    """Tuples per unit of time when the busiest worker is full, over key grouping's."""
    rows = selected(measured["balance"], stream=stream, workers=papers.WORKERS)
    key, other = (float(selected(rows, strategy=name)[0]["makespan"]) for name in ("key", strategy))
    return key / other


def capacity(measured: Measured, strategy: str) -> float:
    """The part of the cluster's capacity at which its busiest worker is full."""
    row = selected(measured["latency"], strategy=strategy)[0]
    return float(row["utilisation"]) / float(row["busiest"])


def latency_ratio(measured: Measured) -> dict[float, float]:
    """TAG's mean latency over NAG's by utilisation, where neither has an unbounded queue."""
    tag, nag = (selected(measured["latency"], strategy=name) for name in ("tag", "nag"))
    return {
        float(ours["utilisation"]): float(ours["mean"]) / float(theirs["mean"])
        for ours, theirs in zip(tag, nag, strict=True)
        if max(float(ours["busiest"]), float(theirs["busiest"])) < 1
    }
