"""docs/transmission.md and its plots, made only from what experiments kept in docs/transmission."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sluice.lab import plots
from sluice.lab.kept import kept
from sluice.lab.medians import of, over_runs
from sluice.lab.page import templates
from sluice.lab.plots import Plot
from sluice.lab.runs import how_many
from sluice.lab.tables import Cell, Measured, Table, pivot, selected
from sluice.lab.transmission import paper, runs
from sluice.lab.transmission.bars import bars
from sluice.lab.transmission.brokers import BEAT_MS, SESSION_MS
from sluice.lab.transmission.experiments import ARRIVES, FOLDER, LIVE, PROCESSED, SHORT, TIMES, UNEQUAL
from sluice.lab.transmission.figures import together
from sluice.lab.transmission.ownership import QUIET_SECONDS
from sluice.lab.transmission.rivals import ALL
from sluice.lab.transmission.run import METADATA_MS
from sluice.lab.transmission.runs import SAMPLE_SECONDS
from sluice.lab.transmission.scenarios import PAPER, SCENARIOS
from sluice.lab.trials import Row
from sluice.runtime.settings import ROOT

PAGE = ROOT / "docs" / "transmission.md"
PLOTS = {
    "rate": Plot(
        "Paper 003's scenario: what C1 and C2 consume while C0 leaves and comes back",
        "at", "rate", "seconds", "megabytes a second, median",
    ),
    "change": Plot(
        "As the paper's figure 8: how C1's and C2's rate changes from sample to sample",
        "at", "change", "seconds", "megabytes a second, median",
    ),
    "cpu": Plot(
        "As the paper's figure 9: CPU use of C1 and C2",
        "at", "cpu", "seconds", "processors, median",
    ),
    "standstill": Plot(
        "Paper 003's scenario: partitions that stood still no longer than this",
        "seconds", "part", "seconds", "part of the partitions",
    ),
    "standstill-both": Plot(
        "A hot partition and a slow member: partitions that stood still no longer than this",
        "seconds", "part", "seconds", "part of the partitions",
    ),
}  # fmt: skip
_GRID, _TICKS = 0.5, 16
#: A scenario of more steps has one table for all of them.
_TABLES = 3


def write(page: Path = PAGE, folder: Path = FOLDER) -> Path:
    """Write the page and its plots (into `images` beside it); returns the page's path."""
    measured = load(folder)
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(render(measured))
    for name, rows in drawn(measured).items():
        plots.draw(PLOTS[name], rows, page.parent / "images" / f"transmission-{name}.svg")
    return page


def drawn(measured: Measured) -> dict[str, list[Row]]:
    """The rows of each plot for which something was measured."""
    samples, stood = measured["samples"], measured["stood"]
    found = {
        "rate": rates(samples),
        "change": paper.over_time(samples, paper.changes, "change"),
        "cpu": paper.over_time(samples, paper.cpus, "cpu"),
        "standstill": standstills(stood, "paper"),
        "standstill-both": standstills(stood, "both"),
    }
    return {name: rows for name, rows in found.items() if rows}


def load(folder: Path = FOLDER) -> Measured:
    """The kept rows of every experiment."""
    return {"computed": kept("computed", folder), **runs.load(folder)}


def render(measured: Measured) -> str:
    """The page. measured: the rows of every experiment, by its name."""
    computed, live = measured["computed"], measured["live"]
    return templates.get_template("transmission.md.j2").render(
        runs=how_many(live),
        busy=_busy(live),
        by_clock=_by_clock(live),
        beat=BEAT_MS / 1e3,
        session=SESSION_MS / 1e3,
        gap=TIMES.gap,
        short=SHORT.gap,
        unequal=UNEQUAL.settle,
        quiet=QUIET_SECONDS,
        metadata=METADATA_MS / 1e3,
        sample=SAMPLE_SECONDS,
        arrives=ARRIVES / sum(PAPER.partitions.values()) / 1e6,
        processed=PROCESSED / 1e6,
        messages=int(ARRIVES / 1e3 * (TIMES.settle + 2 * TIMES.gap)),
        plots={name: PLOTS[name].title for name in drawn(measured)},
        paper=_paper(computed).markdown(),
        by_chance=_by_chance(computed),
        scenarios=_scenarios().markdown(),
        load=_last(computed, "load").markdown(),
        moved=_sum(computed, "moved").markdown(),
        living=_sum(computed, "living").markdown(),
        cost=_cost(computed).markdown(),
        live={name: _live(live, name) for name in LIVE if selected(live, scenario=name)},
        titles={name: scenario.title for name, scenario in SCENARIOS.items()},
        change=paper.greatest(measured["samples"]).markdown(),
        claims=paper.claims(measured["samples"], TIMES.settle, TIMES.settle + TIMES.gap).markdown(),
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


def standstills(stood: Sequence[Row], scenario: str) -> list[Row]:
    """How many partitions stood still no longer than each time, after both steps, by contender."""
    rows = selected(stood, scenario=scenario)
    found: list[Row] = []
    for name in ALL:
        times = [float(row["seconds"]) for row in selected(rows, strategy=name)]
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


def _by_chance(computed: Sequence[Row]) -> str:
    """How uneven KIP-848's range may leave the paper's group, by the order of random ids."""
    first, *_ = selected(computed, scenario="paper", strategy="kip848-range")
    return " or ".join(str(first["numbers"]).split())


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
    """A table for each step of the scenario, or one for all of them where there are many."""
    rows = selected(live, scenario=scenario)
    steps = {str(step): step.told() for step in SCENARIOS[scenario].steps}
    if len(steps) > _TABLES or len(SCENARIOS[scenario].steps) > len(steps):
        return {"All steps together": _phases(together(rows))}
    return {told: _phases(selected(rows, step=step)) for step, told in steps.items()}


def _phases(rows: Sequence[Row]) -> str:
    figures = {
        "load": "load", "moved": "moved", "p50": "p50, s", "p99": "p99, s", "worst": "worst, s",
        "balanced": "balanced, s", "rate": "MB/s", "cpu": "CPU", "twice": "twice",
    }  # fmt: skip
    names = [name for name in ALL if selected(rows, strategy=name)]
    cells: list[list[Cell]] = [
        [name, *(str(over_runs(rows, figure, strategy=name)) for figure in figures)] for name in names
    ]
    return Table(["assignor", *figures.values()], cells).markdown()


def _busy(live: Sequence[Row]) -> str:
    """The processors that other programs used during the runs; empty if that was not kept."""
    found = [float(row["busy"]) for row in live if "busy" in row]
    return str(of(found)) if found else ""


def _by_clock(live: Sequence[Row]) -> str:
    """The scenarios with runs whose phases did not wait for the group."""
    return ", ".join(dict.fromkeys(str(row["scenario"]) for row in live if "settled" not in row))


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
