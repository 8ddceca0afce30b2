"""What docs/transmission.md shows of runs on live brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from sluice_lab.medians import of, over_runs
from sluice_lab.runs import how_many
from sluice_lab.tables import Cell, Measured, TextTable, selected, shown
from sluice_lab.transmission.experiments import LIVE, ordinary_load
from sluice_lab.transmission.figures import of_all_runs, quantile, together
from sluice_lab.transmission.rivals import ALL
from sluice_lab.transmission.runs import rate
from sluice_lab.transmission.scenarios import SCENARIOS
from sluice_lab.trials import Row

#: A scenario of more steps has one table for all of them.
_TABLES = 3
TOGETHER = "All steps together"


def tables(measured: Measured) -> dict[str, dict[str, TextTable]]:
    """For each scenario that was measured, a table for each step, or one for all where there are many."""
    found: dict[str, dict[str, TextTable]] = {}
    for name, steps in phases(measured["live"]).items():
        stood = selected(measured["stood"], scenario=name)
        for step, rows in steps.items():
            some = stood if step == TOGETHER else selected(stood, step=step)
            found.setdefault(name, {})[told(name, step)] = _table(rows, some)
    return found


def told(scenario: str, step: str) -> str:
    """What happens in the step, in words."""
    return {str(each): each.told() for each in SCENARIOS[scenario].steps}.get(step, step)


def phases(live: Sequence[Row]) -> dict[str, dict[str, list[Row]]]:
    """The rows of each table, by scenario and step: one for each run of each contender."""
    found: dict[str, dict[str, list[Row]]] = {}
    for name in LIVE:
        rows = selected(live, scenario=name)
        steps = list(dict.fromkeys(str(step) for step in SCENARIOS[name].steps))
        if not rows:
            continue
        if len(steps) > _TABLES or len(SCENARIOS[name].steps) > len(steps):
            found[name] = {TOGETHER: together(rows)}
        else:
            found[name] = {step: selected(rows, step=step) for step in steps}
    return found


def _table(rows: Sequence[Row], stood: Sequence[Row]) -> TextTable:
    names = [name for name in ALL if selected(rows, strategy=name)]
    pooled = of_all_runs(rows, stood)
    columns = ["assignor", "partitions", "load", "moved", "living", "p50 / p99, s" if pooled else "p50, s",
               "worst, s", "balanced, s", "MB/s", "CPU", "twice"]  # fmt: skip
    cells: list[list[Cell]] = []
    for name in names:
        some = selected(rows, strategy=name)
        first = _medians(some, "load", "moved", "living")
        last = _medians(some, "balanced", "rate", "cpu", "twice")
        still = _pooled(selected(stood, strategy=name)) if pooled else str(over_runs(some, "p50"))
        cells.append([name, _commonest(some), *first, still, _worst(some), *last])
    return TextTable(columns, cells)


def _medians(rows: Sequence[Row], *figures: str) -> list[str]:
    return [str(over_runs(rows, figure)) for figure in figures]


def _pooled(stood: Sequence[Row]) -> str:
    """The median and the 99th percentile of all partitions of all runs."""
    seconds = [float(row["seconds"]) for row in stood]
    return " / ".join(shown(quantile(seconds, part)) for part in (0.5, 0.99))


def _worst(rows: Sequence[Row]) -> str:
    """The median of the runs' worst; and the worst of all, if it is not the end of the interval."""
    worst = [float(row["worst"]) for row in rows]
    middle = of(worst)
    return str(middle) if max(worst) <= middle.high else f"{middle}, most {shown(max(worst))}"


def _commonest(rows: Sequence[Row]) -> str:
    """How many partitions the members had most often, and in how many of the runs if not in all."""
    ((text, count), *_) = Counter(str(row["partitions"]) for row in rows).most_common(1)
    return text if count == len(rows) else f"{text} ({count} of {len(rows)})"


def set_up(live: Sequence[Row]) -> TextTable:
    """How the runs of each scenario were made, and how busy the machine was."""
    cells: list[list[Cell]] = []
    for name in LIVE:
        runs = _firsts(selected(live, scenario=name))
        if not runs:
            continue
        loads = sorted({ordinary_load(SCENARIOS[name], rate(row)) for row in runs})
        busy = [float(row["busy"]) for row in runs if "busy" in row]
        cells.append(
            [
                name,
                how_many(runs),
                "load and speed" if SCENARIOS[name].known else "number",
                ", ".join(map(shown, loads)),
                str(of(busy)) if busy else "not kept",
                _pinned(runs),
            ]
        )
    columns = ["scenario", "runs of each", "ours goes by", "MB/s, ordinary partition",
               "other programs, processors", "consumers pinned"]  # fmt: skip
    return TextTable(columns, cells)


def cores(live: Sequence[Row]) -> str:
    """How many processors the machine had, in words."""
    known = sorted({int(row["cores"]) for row in live if "cores" in row})
    said = f"{' or '.join(map(str, known))} processors" if known else ""
    if all("cores" in row for row in live):
        return said
    return f"{said}; of other runs it was not kept" if said else "whose number of processors was not kept"


def moved(live: Sequence[Row]) -> TextTable:
    """What moved in a run, all steps together: medians, and their sum over the scenarios."""
    cells: list[list[Cell]] = []
    scenarios = [name for name in LIVE if selected(live, scenario=name)]
    sums = {name: together(selected(live, scenario=name)) for name in scenarios}
    for contender in ALL:
        found = {
            name: of([float(row["moved"]) for row in selected(rows, strategy=contender)])
            for name, rows in sums.items()
            if selected(rows, strategy=contender)
        }
        if found:
            texts = [str(found[name]) if name in found else "" for name in scenarios]
            whole = len(found) == len(scenarios)
            cells.append(
                [contender, *texts, shown(sum(each.middle for each in found.values())) if whole else ""]
            )
    return TextTable(["assignor", *scenarios, "all"], cells)


def _pinned(runs: Sequence[Row]) -> str:
    pinned = sum(int(row.get("pinned", 0)) > 0 for row in runs)
    return {0: "no", len(runs): "yes"}.get(pinned, f"{pinned} of {len(runs)} runs")


def _firsts(rows: Sequence[Row]) -> list[Row]:
    """The first row of each run."""
    return list({(row["strategy"], row["run"]): row for row in reversed(rows)}.values())
