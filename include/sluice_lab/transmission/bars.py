"""What our assignor must reach, held against what was kept of the experiments."""

from __future__ import annotations

from collections.abc import Iterator

from sluice_lab.medians import over_runs
from sluice_lab.tables import Measured, TextBar, selected
from sluice_lab.transmission import agreement
from sluice_lab.transmission.figures import together
from sluice_lab.transmission.rivals import ALL, KAFKAS, OURS
from sluice_lab.trials import Row

UNEVEN = ("skew", "slow", "both")
#: Scenarios of equal partitions and members.
EVEN = ("rolling", "flapping", "frozen", "growing")
#: Of the best other's unevenness; of uniform's moves; of cooperative-sticky's worst standstill.
LOAD, MOVES, STANDSTILL = 0.5, 1.1, 1.1
MILLISECONDS = 50.0
#: An assignment that is this close to the most even one of all is as even as can be.
CLOSE = 0.02
COMPUTED_PAPER = {
    "range": ("2/3/8", "4/9", 3, 1),
    "roundrobin": ("2/3/8", "4/9", 4, 2),
    "sticky": ("4/4/5", "6/7", 4, 0),
    "cooperative-sticky": ("4/4/5", "6/7", 4, 0),
}


def bars(measured: Measured) -> list[TextBar]:
    """Every bar, in the order of the page."""
    return [
        *_paper(measured),
        *_measured(measured),
        *_agreement(measured),
        *_load(measured),
        *_moves(measured),
        *_standstill(measured),
        _cost(measured),
    ]


def even_enough(ours: float, best_other: float, least: float) -> bool:
    """At most half as uneven as the best other, or next to as even as can be."""
    return ours <= LOAD * best_other or ours <= least + CLOSE


def _paper(measured: Measured) -> Iterator[TextBar]:
    rows = selected(measured["computed"], scenario="paper")
    for name, (start, gone, moved, living) in COMPUTED_PAPER.items():
        (first,) = selected(rows, strategy=name, step="start")
        (second,) = selected(rows, strategy=name, step="- C0")
        found = (first["partitions"], _sorted(second["partitions"]), second["moved"], second["living"])
        text = f"{found[0]}, then {second['partitions']}; {found[2]} moved, {found[3]} between living members"
        yield TextBar(
            f"paper: {name} computes what its rule says", text, found == (start, gone, moved, living)
        )


def _measured(measured: Measured) -> Iterator[TextBar]:
    """Every live scenario was run with every contender, and the group was stable at the end of each phase."""
    for scenario in ("paper", *UNEVEN, *EVEN):
        rows = selected(measured["live"], scenario=scenario)
        found = {row["strategy"] for row in rows}
        absent = [name for name in ALL if name not in found]
        waited = [row for row in rows if "settled" in row]
        stable = sum(int(row["settled"]) for row in waited)
        text = f"not measured: {', '.join(absent)}" if rows and absent else "not measured"
        if not absent:
            text = f"{stable} of {len(rows)} phases" if waited else "measured by the clock"
        yield TextBar(
            f"{scenario}: every contender is measured, and every phase ends with a stable group",
            text,
            not absent and stable == len(rows),
        )


def _whole(measured: Measured, scenario: str) -> list[Row]:
    """The live rows of a scenario that all contenders have run; none of another."""
    rows = selected(measured["live"], scenario=scenario)
    return rows if {row["strategy"] for row in rows} >= set(ALL) else []


def _agreement(measured: Measured) -> Iterator[TextBar]:
    for scenario in ("paper", *UNEVEN, *EVEN):
        if live := _whole(measured, scenario):
            yield from agreement.bars(scenario, selected(measured["computed"], scenario=scenario), live)


def _load(measured: Measured) -> Iterator[TextBar]:
    for scenario in UNEVEN:
        rows = _whole(measured, scenario)
        for step in ("start", "- C0", "+ C0") if rows else ():
            found = {name: over_runs(rows, "load", strategy=name, step=step).middle for name in ALL}
            best = min(KAFKAS, key=lambda name: found[name])
            (same, *_) = selected(measured["computed"], scenario=scenario, step=step)
            least = float(same["least"])
            yield TextBar(
                f"{scenario}, {step}, live: load at most half as uneven as the best other, or least possible",
                f"{found[OURS]:.3f}; {best} {found[best]:.3f}, least possible {least:.3f}",
                even_enough(found[OURS], found[best], least),
            )


def _moves(measured: Measured) -> Iterator[TextBar]:
    """Over all scenarios: what has to move when a member leaves depends on what it was given before."""
    sums = {
        name: sum(int(row["moved"]) for row in selected(measured["computed"], strategy=name))
        for name in (OURS, "kip848-uniform")
    }
    limit = sums["kip848-uniform"] * MOVES
    yield TextBar(
        "all scenarios, computed: moves at most uniform's + 10 %",
        f"{sums[OURS]}; uniform {sums['kip848-uniform']}",
        sums[OURS] <= limit,
    )
    rows = _whole(measured, "paper")
    for step in ("- C0", "+ C0") if rows else ():
        ours, other = (over_runs(rows, "moved", strategy=name, step=step).middle for name in sums)
        yield TextBar(
            f"paper, {step}, live: moves at most uniform's + 10 %",
            f"{ours:g}; uniform {other:g}",
            ours <= other * MOVES,
        )


def _standstill(measured: Measured) -> Iterator[TextBar]:
    for scenario in ("paper", *UNEVEN):
        rows = _whole(measured, scenario)
        for step in ("- C0", "+ C0") if rows else ():
            yield _no_longer(f"{scenario}, {step}", selected(rows, step=step))
    for scenario in EVEN:
        if rows := together(_whole(measured, scenario)):
            yield _no_longer(f"{scenario}, all steps", rows)


def _no_longer(where: str, rows: list[Row]) -> TextBar:
    ours, other = (over_runs(rows, "worst", strategy=name).middle for name in (OURS, "cooperative-sticky"))
    return TextBar(
        f"{where}: no partition stands still longer than under cooperative-sticky + 10 %",
        f"{ours:.2f} s; cooperative-sticky {other:.2f} s",
        ours <= other * STANDSTILL,
    )


def _cost(measured: Measured) -> TextBar:
    rows = selected(measured["computed"], scenario="large", strategy=OURS)
    worst = max(float(row["milliseconds"]) for row in rows)
    return TextBar("50 members, 1,000 partitions: under 50 ms", f"{worst:.1f} ms", worst < MILLISECONDS)


def _sorted(partitions: object) -> str:
    return "/".join(sorted(str(partitions).split("/"), key=lambda text: int(text.partition("-")[0])))
