"""Plots of rows of figures, as SVG files that do not change when the figures do not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import Any

from sluice_lab.trials import Row

#: A strategy's mark and colour follow from its place; there are more strategies than matplotlib has colours.
_COLOURS = (*(f"C{n}" for n in range(10)), "black", "navy", "darkgreen")
_MARKS = ("o-", "s--", "^:", "d-.", "v-", "x--", "*:", "p-.", "<-", ">--", "h:", "+-.")


_APART = 1.5
#: A line of more points has no marks, and its values are not all on the axis.
_POINTS = 40


@dataclass(frozen=True)
class Plot:
    """One figure of rows over another, a line for each strategy.

    x, y: names of figures. x_label, y_label: what the axes say, with units. linear: the greatest |y| that a
    logarithmic y axis still shows linearly, so that a 0 has a place on it; None for a linear axis.
    """

    title: str
    x: str
    y: str
    x_label: str
    y_label: str
    log_x: bool = False
    linear: float | None = None


#: The plots of trials and of latencies.
BY_WORKERS = Plot(
    "imbalance of the last batch", "workers", "relative", "workers", "max / mean - 1", log_x=True, linear=0.01
)
BY_BATCH = Plot("imbalance", "batch", "relative", "batch", "max / mean - 1", linear=0.01)
MEMORY = Plot("state", "total", "held", "tuples so far", "workers that hold a key, on average", log_x=True)
LATENCY = Plot(
    "latency, 99th percentile", "utilisation", "p99", "utilisation of the cluster", "in the unit of times",
    linear=1.0,
)  # fmt: skip


def draw_all(rows: Sequence[Row], waits: Sequence[Row], folder: Path) -> list[Path]:
    """Draw every plot that there are rows for, by stream and by number of workers."""
    drawn = []

    def draw_some(plot: Plot, some: Sequence[Row], *names: object) -> None:
        path = folder / ("-".join(re.sub(r"[^\w.]+", "-", str(name)) for name in names) + ".svg")
        draw(replace(plot, title=f"{plot.title}: {', '.join(map(str, names[1:]))}"), some, path)
        drawn.append(path)

    for stream, of_stream in _groups(rows, "stream"):
        last = [row for row in of_stream if row["batch"] == max(int(row["batch"]) for row in of_stream)]
        if len({row["workers"] for row in last}) > 1:
            draw_some(BY_WORKERS, last, "imbalance-by-workers", stream)
        for workers, some in _groups(of_stream, "workers"):
            if len({row["batch"] for row in some}) > 1:
                draw_some(BY_BATCH, some, "imbalance-by-batch", stream, f"{workers} workers")
                draw_some(MEMORY, some, "state-by-tuples", stream, f"{workers} workers")
    bounded = [row for row in waits if float(row["busiest"]) < 1]  # the others depend on the trial's length
    for stream, of_stream in _groups(bounded, "stream"):
        for workers, some in _groups(of_stream, "workers"):
            draw_some(LATENCY, some, "latency-by-utilisation", stream, f"{workers} workers")
    return drawn


def _groups(rows: Iterable[Row], name: str) -> Iterable[tuple[object, list[Row]]]:
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found.items()


def draw(plot: Plot, rows: Iterable[Row], path: Path, bands: Sequence[tuple[float, float]] = ()) -> None:
    """Write the plot into an SVG file. bands: parts of the x axis that are marked."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sluice"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        lines.setdefault(str(row["strategy"]), []).append((float(row[plot.x]), float(row[plot.y])))
    for begin, end in bands:
        axes.axvspan(begin, end, color="0.5", alpha=0.25, linewidth=0)
    looks = zip(cycle(_MARKS), cycle(_COLOURS), lines.items(), strict=False)
    for mark, colour, (name, points) in looks:
        size = 5 if len(points) <= _POINTS else 0
        axes.plot(*zip(*sorted(points), strict=True), mark, color=colour, label=name, markersize=size)
    _scales(axes, plot, sorted({x for points in lines.values() for x, _ in points}))
    axes.set_title(plot.title)
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(alpha=0.3)
    # Beside the axes, where it covers no line; the layout makes room for it.
    figure.legend(loc="outside right upper", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _scales(axes: Any, plot: Plot, xs: Sequence[float]) -> None:
    if plot.log_x:
        axes.set_xscale("log")
        axes.minorticks_off()
    if plot.linear is not None:
        axes.set_yscale("symlog", linthresh=plot.linear)
    axes.set_ylim(bottom=0)
    if len(xs) > _POINTS:
        return
    ticks = _apart(xs) if plot.log_x else xs
    axes.set_xticks(ticks, [_tick(x) for x in ticks])


def _apart(xs: Sequence[float]) -> list[float]:
    """The values whose labels do not meet on a logarithmic axis."""
    found: list[float] = []
    for x in xs:
        if not found or x >= found[-1] * _APART:
            found.append(x)
    return found


def _tick(x: float) -> str:
    for size, unit in ((1_000_000, "M"), (10_000, "k")):
        if x >= size:
            return f"{x / (size if unit == 'M' else 1_000):g}{unit}"
    return f"{x:g}"
