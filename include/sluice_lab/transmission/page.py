"""docs/transmission.md and its plots, made only from what experiments kept in docs/transmission."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sluice.runtime.settings import ROOT
from sluice.traffic.edu import EDU
from sluice_lab import plots
from sluice_lab.medians import of
from sluice_lab.page import templates
from sluice_lab.plots import Plot
from sluice_lab.saved_rows import kept
from sluice_lab.tables import Cell, Measured, TextTable, selected
from sluice_lab.transmission import advice, computed_tables, live_tables, paper, runs
from sluice_lab.transmission.bars import bars
from sluice_lab.transmission.brokers import BEAT_MS, SESSION_MS
from sluice_lab.transmission.experiments import FOLDER, LIVE, SHORT, TIMES, UNEQUAL
from sluice_lab.transmission.ownership import QUIET_SECONDS
from sluice_lab.transmission.rivals import ALL, kafka_version
from sluice_lab.transmission.run import METADATA_MS
from sluice_lab.transmission.runs import SAMPLE_SECONDS
from sluice_lab.transmission.scenarios import ARRIVES, HOT, HOT_PARTITIONS, PAPER, PROCESSED, SCENARIOS
from sluice_lab.trials import Row

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
        "change": paper.over_time(samples, lambda run: paper.changes(run, TIMES.settle), "change"),
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
    return templates.get_template("transmission.md.j2").render(
        plots={name: PLOTS[name].title for name in drawn(measured)},
        bars=_bars(measured).markdown(),
        **_scale(measured["live"]),
        **computed_tables.shown(measured["computed"]),
        **_of_live(measured),
    )


def _scale(live: Sequence[Row]) -> dict[str, object]:
    """How live runs are made."""
    paper_runs = selected(live, scenario=PAPER.name)
    arrives = runs.rate(paper_runs[0]) * 1e6 if paper_runs else ARRIVES
    known = [name for name in LIVE if SCENARIOS[name].known]
    return {
        "kafka": kafka_version(),
        "cores": live_tables.cores(live),
        "by_clock": _by_clock(live),
        "known": _listed(known),
        "unknown": _listed([name for name in LIVE if name not in known]),
        "hot": HOT,
        "hot_key": f"{100 * EDU.top:.3g}",
        "hot_partitions": HOT_PARTITIONS,
        "beat": BEAT_MS / 1e3,
        "session": SESSION_MS / 1e3,
        "gap": TIMES.gap,
        "short": SHORT.gap,
        "unequal": UNEQUAL.settle,
        "quiet": QUIET_SECONDS,
        "metadata": METADATA_MS / 1e3,
        "sample": SAMPLE_SECONDS,
        "processed": PROCESSED / 1e6,
        "messages": int(arrives / 1e3 * (TIMES.settle + 2 * TIMES.gap)),
    }


def _of_live(measured: Measured) -> dict[str, object]:
    live, samples = measured["live"], measured["samples"]
    tables = live_tables.tables(measured)
    absence = paper.Absence(TIMES.settle, TIMES.settle + TIMES.gap)
    return {
        "set_up": live_tables.set_up(live).markdown(),
        "live_moved": live_tables.moved(live).markdown(),
        "live": {
            name: {step: table.markdown() for step, table in steps.items()} for name, steps in tables.items()
        },
        "alone": _listed([name for name, steps in tables.items() if _unpooled(steps.values())]),
        "titles": {name: scenario.title for name, scenario in SCENARIOS.items()},
        "change": paper.greatest(samples, absence).markdown(),
        "claims": paper.claims(samples, absence).markdown(),
        "members": _members(samples).markdown(),
        "shortest": advice.shortest(measured).markdown(),
        "advice": advice.figures(measured),
    }


def _listed(names: Sequence[str]) -> str:
    """The names as one reads them, such as `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _unpooled(tables: Iterable[TextTable]) -> bool:
    """Whether the standstill of each partition was not kept for these tables."""
    return any("p50, s" in table.columns for table in tables)


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


def _by_clock(live: Sequence[Row]) -> str:
    """The scenarios with runs whose phases did not wait for the group."""
    return ", ".join(dict.fromkeys(str(row["scenario"]) for row in live if "settled" not in row))


def _members(samples: Sequence[Row]) -> TextTable:
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
    return TextTable(["C0 / C1 / C2, MB/s", *ends], cells)


def _bars(measured: Measured) -> TextTable:
    rows = [[bar.name, bar.figure, "holds" if bar.holds else "**fails**"] for bar in bars(measured)]
    return TextTable(["bar", "found", ""], rows)
