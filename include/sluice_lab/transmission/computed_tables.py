"""What docs/transmission.md shows of what the assignors' own classes answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sluice_lab.tables import Cell, TextTable, pivot, selected
from sluice_lab.transmission import chance
from sluice_lab.transmission.rivals import ALL, OURS
from sluice_lab.transmission.scenarios import SCENARIOS
from sluice_lab.trials import Row

_KINDS = {"-": "one leaves", "+": "one comes back", "!": "one stands still", "~": "it goes on"}


def shown(computed: Sequence[Row]) -> dict[str, object]:
    """What the template needs."""
    return {
        "paper": _paper(computed).markdown(),
        "begins": _begins(computed),
        "walks": chance.WALKS,
        "by_chance": _by_chance(computed).markdown(),
        "scenarios": _scenarios().markdown(),
        "load": _last(computed, "load").markdown(),
        "moved": _sum(computed, "moved").markdown(),
        "living": _sum(computed, "living").markdown(),
        "cost": _cost(computed).markdown(),
        "moves": {name: moves(computed, name) for name in (OURS, "kip848-uniform")},
    }


def _paper(computed: Sequence[Row]) -> TextTable:
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
    return TextTable(columns, rows)


def _begins(computed: Sequence[Row]) -> str:
    """How KIP-848's range may begin with the paper's group, by the order of random ids."""
    first, *_ = selected(computed, scenario="paper", strategy="kip848-range")
    some = chance.read(first["possible"])
    return ", ".join(f"{each.partitions} (max / mean - 1: {each.number():.3g})" for each in some)


def _by_chance(computed: Sequence[Row]) -> TextTable:
    """What a step can move, and how much of it between living members, where that depends on random ids."""
    found: dict[tuple[str, ...], list[str]] = {}
    for scenario in SCENARIOS:
        by_label: dict[str, dict[str, set[tuple[int, int]]]] = {}
        for row in selected(computed, scenario=scenario):
            for each in chance.read(row.get("possible", "")):
                label = _KINDS.get(str(row["step"])[0], str(row["step"]))
                names = by_label.setdefault(label, {})
                names.setdefault(str(row["strategy"]), set()).add((each.moved, each.living))
        for label, names in by_label.items():
            if any(len(some) > 1 for some in names.values()):
                cells = (_pairs(names[name]) for name in chance.RANDOM_IDS)
                found.setdefault((label, *cells), []).append(scenario)
    rows: list[list[Cell]] = [[", ".join(names), *cells] for cells, names in found.items()]
    return TextTable(["scenarios", "step", *chance.RANDOM_IDS], rows)


def _pairs(some: Iterable[tuple[int, int]]) -> str:
    return "; ".join(f"{moved}, {living}" for moved, living in sorted(some))


def _scenarios() -> TextTable:
    return TextTable(["scenario", "what happens"], [[each.name, each.title] for each in SCENARIOS.values()])


def _last(computed: Sequence[Row], figure: str) -> TextTable:
    """The figure after the last step."""
    last = {(row["scenario"], row["strategy"]): row for row in computed}
    return pivot(last.values(), "strategy", "scenario", figure, corner="assignor")


def _sum(computed: Sequence[Row], figure: str) -> TextTable:
    sums: dict[tuple[str, str], int] = {}
    for row in computed:
        for scenario in (str(row["scenario"]), "all"):
            key = scenario, str(row["strategy"])
            sums[key] = sums.get(key, 0) + int(row[figure])
    rows: list[Row] = [{"scenario": s, "strategy": name, "sum": found} for (s, name), found in sums.items()]
    rows.sort(key=lambda row: row["scenario"] == "all")
    return pivot(rows, "strategy", "scenario", "sum", corner="assignor")


def moves(computed: Sequence[Row], name: str) -> dict[str, int]:
    """What the contender moves in each scenario, and in all."""
    rows = selected(computed, strategy=name)
    sums = {each: sum(int(row["moved"]) for row in selected(rows, scenario=each)) for each in SCENARIOS}
    return sums | {"all": sum(sums.values())}


def _cost(computed: Sequence[Row]) -> TextTable:
    return pivot(
        selected(computed, scenario="large"), "strategy", "step", "milliseconds", corner="milliseconds"
    )
