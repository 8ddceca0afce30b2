"""The figures behind the advice of docs/transmission.md. A test holds each of its sentences against them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sluice_lab.medians import over_runs
from sluice_lab.tables import Cell, Measured, TextTable, selected, shown
from sluice_lab.transmission.figures import quantile
from sluice_lab.transmission.live_tables import phases, told
from sluice_lab.transmission.rivals import ALL, OURS
from sluice_lab.trials import Row

EAGER, COOPERATIVE = "sticky", "cooperative-sticky"


class Standstill(NamedTuple):
    """The medians of the runs' worst standstill in one table, in seconds, by contender."""

    scenario: str
    step: str
    worst: dict[str, float]

    def shortest(self) -> str:
        return min(self.worst, key=self.worst.__getitem__)


def standstills(measured: Measured) -> list[Standstill]:
    """One for each table that all contenders are in."""
    return [
        Standstill(scenario, step, {name: over_runs(rows, "worst", strategy=name).middle for name in ALL})
        for scenario, steps in phases(measured["live"]).items()
        for step, rows in steps.items()
        if {row["strategy"] for row in rows} >= set(ALL)
    ]


def shortest(measured: Measured) -> TextTable:
    """Who stands still least in each table, beside the sticky kinds and ours."""
    cells: list[list[Cell]] = []
    for each in standstills(measured):
        best = each.shortest()
        figures = [shown(each.worst[name]) for name in (EAGER, COOPERATIVE, OURS)]
        where = told(each.scenario, each.step)
        cells.append([each.scenario, where, f"{best}, {shown(each.worst[best])}", *figures])
    return TextTable(["scenario", "step", "shortest", EAGER, COOPERATIVE, OURS], cells)


def figures(measured: Measured) -> dict[str, object]:
    """What the template needs; nothing where a contender has no runs of paper 003's scenario."""
    found = {(each.scenario, each.step): each.worst for each in standstills(measured)}
    if ("paper", "- C0") not in found:
        return {}
    return {
        "gone": _texts(found["paper", "- C0"]),
        "back": _texts(found["paper", "+ C0"]),
        "shorter": sum(worst[EAGER] < worst[COOPERATIVE] for worst in found.values()),
        "of": len(found),
        "half": {name: shown(still(measured, name, "+ C0", 0.5)) for name in ("range", EAGER)},
        "rare": {name: shown(still(measured, name, "- C0", 0.99)) for name in (EAGER, COOPERATIVE)},
        "rate": shown(_last(measured["samples"], "range", "C2")),
    }


def still(measured: Measured, name: str, step: str, part: float) -> float:
    """How long this part of all partitions of all runs stood still no longer in paper 003's scenario."""
    stood = selected(measured["stood"], scenario="paper", step=step, strategy=name)
    return quantile([float(row["seconds"]) for row in stood], part)


def evenness(measured: Measured, scenario: str, step: str) -> dict[str, float]:
    """The load's unevenness in live runs of all contenders, medians."""
    rows = selected(measured["live"], scenario=scenario, step=step)
    return {name: over_runs(rows, "load", strategy=name).middle for name in ALL}


def twice(measured: Measured, scenario: str) -> dict[str, float]:
    """Records that were processed twice in a run, medians."""
    rows = selected(measured["live"], scenario=scenario)
    return {name: over_runs(rows, "twice", strategy=name).middle for name in ALL}


def _texts(worst: dict[str, float]) -> dict[str, str]:
    return {name: shown(seconds) for name, seconds in worst.items()}


def _last(samples: Sequence[Row], name: str, member: str) -> float:
    rows = selected(samples, strategy=name)
    end = max(float(row["at"]) for row in rows)
    return over_runs([row for row in rows if float(row["at"]) == end], member).middle
