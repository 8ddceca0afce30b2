"""docs/transmission.md and its plots, made only from what experiments kept in docs/transmission."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from sluice.lab import plots
from sluice.lab.kept import kept
from sluice.lab.page import templates
from sluice.lab.plots import Plot
from sluice.lab.tables import Cell, Measured, Table, pivot, selected
from sluice.lab.transmission.bars import bars
from sluice.lab.transmission.brokers import BEAT_MS, SESSION_MS
from sluice.lab.transmission.experiments import ARRIVES, FOLDER, LIVE, NAMES, PROCESSED, SAMPLE_SECONDS, TIMES
from sluice.lab.transmission.figures import of, over_runs
from sluice.lab.transmission.rivals import ALL
from sluice.lab.transmission.scenarios import PAPER, SCENARIOS
from sluice.lab.trials import Row
from sluice.runtime.settings import ROOT

PAGE = ROOT / "docs" / "transmission.md"
RATE = Plot(
    "Paper 003's scenario: what C1 and C2 consume while C0 leaves and comes back",
    "at", "rate", "seconds", "megabytes a second, median",
)  # fmt: skip
STOOD = Plot(
    "Paper 003's scenario: partitions that stood still no longer than this",
    "seconds", "part", "seconds", "part of the partitions",
)  # fmt: skip
PLOTS = {"rate": RATE, "standstill": STOOD}
_GRID, _TICKS = 0.5, 16


def write(page: Path = PAGE, folder: Path = FOLDER) -> Path:
    """Write the page and its plots (into `images` beside it); returns the page's path."""
    measured = load(folder)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(measured))
    drawn = {"rate": rates(measured["samples"]), "standstill": standstills(measured["stood"])}
    for name, plot in PLOTS.items():
        plots.draw(plot, drawn[name], page.parent / "images" / f"transmission-{name}.svg")
    return page


def load(folder: Path = FOLDER) -> Measured:
    """The kept rows of every experiment."""
    return {name: kept(name, folder) for name in NAMES}


def runs(live: Sequence[Row]) -> str:
    """How many runs each contender had; by scenario, where that differs."""
    names = list(dict.fromkeys(str(row["scenario"]) for row in live))
    counts = {name: 1 + max(int(row["run"]) for row in live if row["scenario"] == name) for name in names}
    if len(set(counts.values())) == 1:
        return str(next(iter(counts.values())))
    return ", ".join(
        f"{count} ({', '.join(name for name in names if counts[name] == count)})"
        for count in sorted(set(counts.values()))
    )


def render(measured: Measured) -> str:
    """The page. measured: the rows of every experiment, by its name."""
    computed, live = measured["computed"], measured["live"]
    return templates.get_template("transmission.md.j2").render(
        runs=runs(live),
        beat=BEAT_MS / 1e3,
        session=SESSION_MS / 1e3,
        gap=TIMES.gap,
        sample=SAMPLE_SECONDS,
        arrives=ARRIVES / 1e6,
        processed=PROCESSED / 1e6,
        messages=int(sum(PAPER.partitions.values()) * ARRIVES / 1e3 * (TIMES.settle + 2 * TIMES.gap)),
        plots={name: plot.title for name, plot in PLOTS.items()},
        paper=_paper(computed).markdown(),
        scenarios=_scenarios().markdown(),
        load=_last(computed, "load").markdown(),
        moved=_sum(computed, "moved").markdown(),
        living=_sum(computed, "living").markdown(),
        cost=_cost(computed).markdown(),
        live={name: _live(live, name) for name in LIVE if selected(live, scenario=name)},
        titles={name: scenario.title for name, scenario in SCENARIOS.items()},
        change=_change(measured["samples"]).markdown(),
        members=_members(measured["samples"]).markdown(),
        bars=_bars(measured).markdown(),
    )


def rates(samples: Sequence[Row]) -> list[Row]:
    """The median over the runs of what C1 and C2 consume together, by contender and time."""
    found: dict[tuple[str, float], list[float]] = {}
    for row in samples:
        at = round(float(row["at"]))
        found.setdefault((str(row["strategy"]), at), []).append(float(row["C1"]) + float(row["C2"]))
    return [{"strategy": name, "at": at, "rate": of(values).middle} for (name, at), values in found.items()]


def standstills(stood: Sequence[Row]) -> list[Row]:
    """How many partitions stood still no longer than each time, after both steps, by contender."""
    paper = selected(stood, scenario="paper")
    found: list[Row] = []
    for name in ALL:
        times = [float(row["seconds"]) for row in selected(paper, strategy=name)]
        for tick in range(_TICKS + 1):
            if times:
                part = sum(time <= tick * _GRID for time in times) / len(times)
                found.append({"strategy": name, "seconds": tick * _GRID, "part": part})
    return found


def _paper(computed: Sequence[Row]) -> Table:
    rows: list[list[Cell]] = []
    for name in ALL:
        first, gone, back = selected(computed, scenario="paper", strategy=name)
        rows.append(
            [
                name,
                first["partitions"],
                float(first["number"]),
                gone["partitions"],
                f"{gone['moved']}, {gone['living']}",
                back["partitions"],
                f"{back['moved']}, {back['living']}",
            ]
        )
    columns = [
        "assignor",
        "C0/C1/C2",
        "max / mean - 1",
        "without C0",
        "moved, living",
        "C0 back",
        "moved, living",
    ]
    return Table(columns, rows)


def _scenarios() -> Table:
    return Table(["scenario", "what happens"], [[each.name, each.title] for each in SCENARIOS.values()])


def _last(computed: Sequence[Row], figure: str) -> Table:
    """The figure after the last step."""
    last = {(row["scenario"], row["strategy"]): row for row in computed}
    return pivot(last.values(), "strategy", "scenario", figure, corner="assignor")


def _sum(computed: Sequence[Row], figure: str) -> Table:
    sums: dict[tuple[str, str], int] = {}
    for row in computed:
        key = str(row["scenario"]), str(row["strategy"])
        sums[key] = sums.get(key, 0) + int(row[figure])
    rows: list[Row] = [{"scenario": s, "strategy": name, "sum": found} for (s, name), found in sums.items()]
    return pivot(rows, "strategy", "scenario", "sum", corner="assignor")


def _cost(computed: Sequence[Row]) -> Table:
    return pivot(
        selected(computed, scenario="large"), "strategy", "step", "milliseconds", corner="milliseconds"
    )


def _live(live: Sequence[Row], scenario: str) -> dict[str, str]:
    """A table for each step of the scenario."""
    rows = selected(live, scenario=scenario)
    figures = {
        "load": "load", "moved": "moved", "p50": "p50, s", "p99": "p99, s", "worst": "worst, s",
        "balanced": "balanced, s", "rate": "MB/s", "cpu": "CPU", "twice": "twice",
    }  # fmt: skip
    found = {}
    for step in dict.fromkeys(str(row["step"]) for row in rows if row["step"] != "start"):
        names = [name for name in ALL if selected(rows, strategy=name)]
        cells: list[list[Cell]] = [
            [name, *(str(over_runs(rows, figure, strategy=name, step=step)) for figure in figures)]
            for name in names
        ]
        found[step] = Table(["assignor", *figures.values()], cells).markdown()
    return found


def _change(samples: Sequence[Row]) -> Table:
    """How C1's and C2's rate changes from one sample to the next: the greatest rise and fall of each run."""
    cells: list[list[Cell]] = []
    for name in ALL:
        by_run: dict[int, list[float]] = {}
        for row in selected(samples, strategy=name):
            by_run.setdefault(int(row["run"]), []).append(float(row["C1"]) + float(row["C2"]))
        if by_run:
            changes = [[after - before for before, after in pairwise(run[1:])] for run in by_run.values()]
            rise, fall = (str(of([pick(run) for run in changes])) for pick in (max, min))
            cells.append([name, rise, fall])
    return Table(["assignor", "greatest rise, MB/s", "greatest fall, MB/s"], cells)


def _members(samples: Sequence[Row]) -> Table:
    """The rate of each member, in the last sample before each step and at the end."""
    ends = {"before": TIMES.settle, "without C0": TIMES.settle + TIMES.gap}
    ends["C0 back"] = ends["without C0"] + TIMES.gap
    cells: list[list[Cell]] = []
    for name in ALL:
        rows = selected(samples, strategy=name)
        if not rows:
            continue
        cell: list[Cell] = [name]
        for end in ends.values():
            last = [
                row
                for row in rows
                if end - 1.5 * SAMPLE_SECONDS < float(row["at"]) < end - 0.5 * SAMPLE_SECONDS
            ]
            cell.append(" / ".join(f"{of([float(row[m]) for row in last]).middle:.2f}" for m in PAPER.topics))
        cells.append(cell)
    return Table(["C0 / C1 / C2, MB/s", *ends], cells)


def _bars(measured: Measured) -> Table:
    rows = [[bar.name, bar.figure, "holds" if bar.holds else "**fails**"] for bar in bars(measured)]
    return Table(["bar", "found", ""], rows)
