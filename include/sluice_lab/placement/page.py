"""docs/placement.md, made from the rows that docs/placement keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.settings import ROOT
from sluice_lab import plots
from sluice_lab.page import templates
from sluice_lab.placement.bars import bars
from sluice_lab.placement.computed import OURS
from sluice_lab.placement.distance import BOUND, GREEDY
from sluice_lab.placement.experiments import FOLDER, NAMES
from sluice_lab.placement.inputs import SLOTS, TOPOLOGIES
from sluice_lab.placement.live import section
from sluice_lab.placement.live.experiments import load as live_runs
from sluice_lab.plots import Plot
from sluice_lab.saved_rows import kept
from sluice_lab.tables import Cell, Measured, TextTable, selected
from sluice_lab.trials import Row

PAGE = ROOT / "docs" / "placement.md"
PLOTS = {
    step: Plot(title, "part", "load", "part of the inputs", "load over speed, max / mean - 1", linear=1.0)
    for step, title in (
        ("place", "How uneven placements are, random inputs"),
        ("join", "How uneven clusters are after hosts joined, random inputs"),
    )
}
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


def write(page: Path = PAGE, folder: Path = FOLDER) -> Path:
    """Write the page and its plots (into `images` beside it); returns the page's path."""
    measured = load(folder)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(measured))
    images = page.parent / "images"
    for step, plot in PLOTS.items():
        plots.draw(plot, curves(measured["random"], step), images / f"placement-{step}.svg")
    section.draw(measured, images)
    return page


def load(folder: Path = FOLDER) -> Measured:
    """The kept rows of every experiment."""
    return {**{name: kept(name, folder) for name in NAMES}, **live_runs(folder)}


def render(measured: Measured) -> str:
    """The page. measured: the rows of every experiment, by its name."""
    paper, random, optimum = measured["paper"], measured["random"], measured["optimum"]
    return templates.get_template("placement.md.j2").render(
        topologies=", ".join(map(str, TOPOLOGIES)),
        placed=_paper(selected(paper, start="")),
        migrated={start: _migrated(selected(paper, start=start)) for start in ("paper", "storm-0.8")},
        inputs=random[0]["inputs"],
        seed=random[0]["seed"],
        optima=len(optimum),
        random={step: _random(selected(random, step=step)) for step in PLOTS},
        plots={step: plot.title for step, plot in PLOTS.items()},
        distance={step: _distance(selected(measured["distance"], step=step)) for step in PLOTS},
        large=_large(measured["large"]),
        bars=_bars(measured),
        **section.values(measured),
    )


def curves(random: Sequence[Row], step: str) -> list[Row]:
    """For each contender the unevenness that a part of the inputs does not exceed."""
    return [
        {"strategy": row["contender"], "part": quantile, "load": row[f"q{quantile:g}"]}
        for row in selected(random, step=step, figure="load")
        for quantile in _QUANTILES
    ]


def _percent(slots: object) -> str:
    return " / ".join(f"{int(used) / SLOTS:.1%}".replace(".0%", "%") for used in str(slots).split("/"))


def _paper(rows: Sequence[Row]) -> str:
    cells: list[list[Cell]] = [
        [row["contender"], row["slots"], _percent(row["slots"]), float(row["usage"])] for row in rows
    ]
    return TextTable(["scheduler", "slots in use", "usage", "max / mean - 1"], cells).markdown()


def _migrated(rows: Sequence[Row]) -> str:
    cells: list[list[Cell]] = [
        [
            row["contender"],
            row["slots"],
            _percent(row["slots"]),
            row["moved"],
            "stalled" if row["stalled"] else "balanced",
        ]
        for row in rows
    ]
    return TextTable(["migration", "slots in use", "usage", "moves", ""], cells).markdown()


def _random(rows: Sequence[Row]) -> str:
    cells: list[list[Cell]] = []
    for name in dict.fromkeys(str(row["contender"]) for row in rows):
        by = {str(row["figure"]): row for row in selected(rows, contender=name)}
        cells.append(
            [
                name,
                float(by["usage"]["mean"]),
                *(float(by["load"][column]) for column in ("mean", "q0.5", "q0.99")),
                float(by["moved"]["mean"]),
                float(by["colocated"]["mean"]),
            ]
        )
    columns = ["", "usage, mean", "load, mean", "load, median", "load, p99", "moves, mean", "colocated, mean"]
    return TextTable(columns, cells).markdown()


def _distance(rows: Sequence[Row]) -> str:
    cells: list[list[Cell]] = []
    for name in (GREEDY, OURS, BOUND):
        (over,) = selected(rows, contender=name, figure="over")
        more = next(iter(selected(rows, contender=name, figure="more")), None)
        worst = over["q0"] if name == BOUND else over["q1"]
        cells.append(
            [
                name,
                *(f"{float(value):.1%}" for value in (over["mean"], worst)),
                "" if name == BOUND else f"{over['near']} of {over['inputs']}",
                *([float(more["mean"]), int(more["q1"])] if more else ["", ""]),
                f"{more['near']} of {more['inputs']}" if more else "",
            ]
        )
    columns = [
        "", "busiest host over the least, mean", "worst", "within 5 %",
        "moves over the fewest, mean", "worst", "at most 1",
    ]  # fmt: skip
    return TextTable(columns, cells).markdown()


def _large(rows: Sequence[Row]) -> str:
    columns = ("step", "seconds", "before", "load", "moved")
    return TextTable(columns, [[row[column] for column in columns] for row in rows]).markdown()


def _bars(measured: Measured) -> str:
    rows = [[bar.name, bar.figure, "holds" if bar.holds else "**fails**"] for bar in bars(measured)]
    return TextTable(["bar", "found", ""], rows).markdown()
