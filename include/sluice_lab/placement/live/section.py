"""The section of docs/placement.md about units that run, and its plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sluice_lab import plots
from sluice_lab.medians import of, over_runs
from sluice_lab.placement.live import scenarios
from sluice_lab.placement.live.scenarios import SCENARIOS, TIMES, unmoved
from sluice_lab.plots import Plot
from sluice_lab.runs import how_many
from sluice_lab.tables import Cell, Measured, TextTable, selected
from sluice_lab.trials import Row

#: The scenario and the run that the plots show.
SHOWN, RUN = "low", 0
PLOTS = {
    "rate": Plot(
        "From 4/3/3 to 2/2/2/2/2: lines (grey: a unit takes nothing)",
        "at", "lines", "seconds since the hosts joined", "lines a second",
    ),
    "latency": Plot(
        "From 4/3/3 to 2/2/2/2/2: latency (grey: a unit takes nothing)",
        "at", "milliseconds", "seconds since the hosts joined", "milliseconds", linear=100.0,
    ),
}  # fmt: skip
_PHASES = ("before", "during", "after")
_MARKS = {"low": "4/3/3", "default": "5/4/1", "uneven": "uneven"}


def values(measured: Measured) -> Mapping[str, object]:
    """What the template shows of the runs."""
    live, moves = measured["live"], measured["live_moves"]
    uneven = selected(live, scenario="uneven")
    return {
        "live": {
            name: _phases(some) for name in ("low", "default") if (some := selected(live, scenario=name))
        },
        "live_runs": how_many(live) if live else "",
        "live_moves": _moves(moves) if moves else "",
        "live_uneven": _uneven(uneven) if uneven else "",
        "live_busy": str(of([float(row["busy"]) for row in live])) if live else "",
        "live_plots": {name: plot.title for name, plot in PLOTS.items()} if drawn(measured) else {},
        "rate": scenarios.RATE,
        "quiet": scenarios.QUIET,
        "busy": scenarios.BUSY,
        "busy_unit": scenarios.BUSY_UNIT,
        "heap": scenarios.HEAP.removesuffix("m"),
        "times": TIMES,
        "placement": scenarios.placement(SCENARIOS[SHOWN]),
        "titles": {name: each.title for name, each in SCENARIOS.items()},
    }


def draw(measured: Measured, folder: Path) -> None:
    """Draw the plots of one run into the folder of images, if there is one."""
    moves = selected(measured["live_moves"], scenario=SHOWN, run=RUN)
    bands = [
        (float(row["out_at"]), float(row["out_at"]) + float(row["pause"])) for row in moves if "pause" in row
    ]
    for name, rows in drawn(measured).items():
        plots.draw(PLOTS[name], rows, folder / f"placement-live-{name}.svg", bands)


def drawn(measured: Measured) -> dict[str, list[Row]]:
    """The rows of each plot; none if the run is not there."""
    seconds = selected(measured["live_samples"], scenario=SHOWN, run=RUN)
    if not seconds:
        return {}

    def lines(column: str, **names: str) -> list[Row]:
        return [
            {"strategy": name.replace("_", " "), "at": row["at"], column: row[figure]}
            for name, figure in names.items()
            for row in seconds
        ]

    return {
        "rate": lines("lines", written="written", into_Kafka="rate"),
        "latency": lines("milliseconds", p50="p50", p99="p99"),
    }


def _phases(rows: Sequence[Row]) -> str:
    figures = {
        "seconds": "seconds", "written": "written, lines/s", "rate": "into Kafka, lines/s", "p50": "p50, ms",
        "p99": "p99, ms", "worst": "worst, ms",
    }  # fmt: skip
    cells: list[list[Cell]] = [
        [
            name,
            _slots(selected(rows, step=name)),
            *(str(over_runs(rows, figure, step=name)) for figure in figures),
        ]
        for name in _PHASES
    ]
    return TextTable(["", "slots in use", *figures.values()], cells).markdown()


def _slots(rows: Sequence[Row]) -> str:
    return ", ".join(dict.fromkeys(str(row["slots"]) for row in rows if "slots" in row))


def _moves(moves: Sequence[Row]) -> str:
    cells: list[list[Cell]] = []
    for name, start in _MARKS.items():
        if some := selected(moves, scenario=name):
            pauses = [float(row["pause"]) for row in some if "pause" in row]
            cells.append(
                [
                    start,
                    len(some),
                    str(of([float(row["seconds"]) for row in some])),
                    *(float(np.quantile(pauses, part)) for part in (0.5, 0.99)),
                    *(float(np.quantile([float(row["stood"]) for row in some], part)) for part in (0.5, 1)),
                ]
            )
    columns = [
        "start", "moves", "a move, s", "pause p50, s", "pause p99, s", "no line p50, s", "no line, worst, s",
    ]  # fmt: skip
    return TextTable(columns, cells).markdown()


def _uneven(rows: Sequence[Row]) -> str:
    cells: list[list[Cell]] = []
    after = selected(rows, step="after")
    same = str(of([unmoved(row) for row in after]))
    for who, step, moved in (("slot counting", "before", "by_slots"), ("ours", "after", "moved")):
        some = selected(rows, step=step)
        cells.append(
            [
                who,
                str(over_runs(some, moved)),
                _slots(some),
                str(over_runs(some, "uneven")),
                same if step == "before" else str(over_runs(some, "uneven")),
                str(over_runs(some, scenarios.BUSY_UNIT)),
                str(of([float(row[unit]) for row in some for unit in scenarios.units()])),
            ]
        )
    columns = [
        "", "moves", "slots in use", "load, max / mean - 1", "with the later loads", "load of the busy unit",
        "of any unit",
    ]  # fmt: skip
    return TextTable(columns, cells).markdown()
