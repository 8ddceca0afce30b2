"""What our plans must reach, held against what was kept of the experiments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from sluice_lab.placement.distance import BOUND, MOVES, SPREAD
from sluice_lab.placement.live.bars import bars as live
from sluice_lab.tables import Measured, TextBar, selected
from sluice_lab.trials import Row

#: CPU seconds of a plan.
SECONDS = 1.0


def bars(measured: Measured) -> list[TextBar]:
    """Every bar, in the order of the page."""
    return [
        *_paper(measured["paper"]),
        *_optimum(measured["optimum"]),
        *_bound(measured["distance"]),
        *_colocated(measured["random"]),
        *_seconds(measured["large"]),
        *live(measured),
    ]


def _paper(rows: Sequence[Row]) -> Iterator[TextBar]:
    expected = (
        ("", "storm-0.8", "5/4/1", 0, "Storm 0.8 places 5/4/1: 62.5, 50 and 12.5 %"),
        ("", "paper", "4/3/3", 0, "slot-usage-low-first places 4/3/3: 50, 37.5 and 37.5 %"),
        ("storm-0.8", "paper's migration", "2/2/2/2/2", 5, "the paper's migration evens out 5/4/1"),
        ("paper", "paper's migration", "2/3/3/2/0", 2, "the paper's migration stalls from 4/3/3"),
        ("paper", "mended migration", "2/2/2/2/2", 4, "the mended migration reaches 25 % each in 4 moves"),
        ("paper", "ours", "2/2/2/2/2", 4, "ours reaches 25 % each in 4 moves"),
    )
    for start, contender, slots, moved, name in expected:
        (row,) = selected(rows, start=start, contender=contender)
        found = (row["slots"], row["moved"])
        yield TextBar(f"paper: {name}", f"{found[0]}, {found[1]} moved", found == (slots, moved))


def _optimum(rows: Sequence[Row]) -> Iterator[TextBar]:
    for step in ("place", "join"):
        gaps = [float(row[step]) for row in rows]
        near = sum(gap <= SPREAD for gap in gaps)
        yield TextBar(
            f"{step}: the busiest host is within {SPREAD:.0%} of the optimum's, each time",
            f"{near} of {len(gaps)} inputs; {fmean(gaps):.1%} over on average, the worst {max(gaps):.1%}",
            near == len(gaps),
        )
    more = [int(row["moved"]) - int(row["fewest"]) for row in rows]
    near = sum(each <= MOVES for each in more)
    yield TextBar(
        f"join: moves at most the fewest + {MOVES}, each time",
        f"{near} of {len(more)} inputs; + {fmean(more):.2f} on average, the worst + {max(more)}",
        near == len(more),
    )


def _bound(rows: Sequence[Row]) -> Iterator[TextBar]:
    for step in ("place", "join"):
        (row,) = selected(rows, step=step, contender=BOUND, figure="over")
        mean, most = (-float(row[column]) for column in ("mean", "q0"))
        yield TextBar(
            f"{step}: no busiest host is below the lower bound, in {row['inputs']} inputs",
            f"the bound is {mean:.1%} below the least on average, {most:.1%} at most",
            float(row["q1"]) <= 0,
        )


def _colocated(rows: Sequence[Row]) -> Iterator[TextBar]:
    for step in ("place", "join"):
        (row,) = selected(rows, step=step, contender="ours", figure="colocated")
        worst = int(row["q1"])
        yield TextBar(
            f"{step}: no two of a group on one host, in {row['inputs']} inputs", f"{worst}", worst == 0
        )


def _seconds(rows: Sequence[Row]) -> Iterator[TextBar]:
    worst = max(float(row["seconds"]) for row in rows)
    yield TextBar("200 hosts, 2,000 units: planned in under 1 s of CPU", f"{worst:.2f} s", worst < SECONDS)
