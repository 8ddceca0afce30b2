"""Plots of measurements as SVG files that do not change if the figures do not."""

from __future__ import annotations

from pathlib import Path

from sluice_lab.bench.outcome import Curve

#: Marks that can be told apart in grey and by the colour-blind.
_MARKS = ("o-", "s--", "^:", "d-.", "v-")
#: With as many points, a line has no marks.
_PLAIN = 50


def plot(curve: Curve, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "sluice"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for mark, (name, (xs, ys)) in zip(_MARKS, curve.lines.items(), strict=False):
        axes.plot(xs, ys, mark if len(xs) < _PLAIN else "-", label=name)
    if curve.log_x:
        axes.set_xscale("log", base=2)
        ticks = sorted({x for xs, _ in curve.lines.values() for x in xs})
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.minorticks_off()
    if curve.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(curve.title)
    axes.set_xlabel(curve.x)
    axes.set_ylabel(curve.y)
    axes.grid(alpha=0.3)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
