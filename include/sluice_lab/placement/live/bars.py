"""What units that run must reach, held against the runs that were kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from sluice_lab.medians import of, over_runs
from sluice_lab.placement.live.scenarios import SCENARIOS, unmoved
from sluice_lab.tables import Measured, TextBar, selected
from sluice_lab.trials import Row

#: Seconds, of nearly all moves.
PAUSE = 10.0
#: Of what slot counting leaves.
UNEVEN = 0.75
EVEN = "2/2/2/2/2"


def bars(measured: Measured) -> Iterator[TextBar]:
    """Every bar, in the order of the page."""
    live = measured["live"]
    for name in SCENARIOS:
        if not selected(live, scenario=name):
            yield TextBar(f"live, {name}: it is measured", "not measured", False)
    yield from _moved(live)
    if live:
        yield _lines(live)
    if measured["live_moves"]:
        yield _pauses(measured["live_moves"])
    if uneven := selected(live, scenario="uneven"):
        yield _uneven(uneven)


def _moved(live: Sequence[Row]) -> Iterator[TextBar]:
    expected = (("low", "4/3/3/0/0", 4), ("default", "5/4/1/0/0", 5))
    for scenario, start, count in expected:
        before = selected(live, scenario=scenario, step="before")
        after = selected(live, scenario=scenario, step="after")
        if not after:
            continue
        good = [
            (one["slots"], other["slots"], other["moved"]) == (start, EVEN, count)
            for one, other in zip(before, after, strict=True)
        ]
        yield TextBar(
            f"live: {start} becomes {EVEN} in {count} moves while lines come, each time",
            f"{sum(good)} of {len(good)} runs",
            all(good),
        )


def _lines(live: Sequence[Row]) -> TextBar:
    runs = selected(live, step="after")
    lines, lost, twice, strange = (
        sum(int(row[name]) for row in runs) for name in ("lines", "lost", "twice", "strange")
    )
    return TextBar(
        "live: every line is in Kafka once, known by its identity",
        f"{lines:,} written, {lost:,} lost, {strange:,} unknown; {twice:,} came more than once",
        not lost and not strange and not twice,
    )


def _pauses(moves: Sequence[Row]) -> TextBar:
    pauses = [float(row["pause"]) for row in moves if "pause" in row]
    middle, most = np.quantile(pauses, (0.5, 0.99)) if pauses else (0.0, float("inf"))
    return TextBar(
        f"live: a unit that moves takes nothing for {PAUSE:g} s at most (p99)",
        f"p50 {middle:.1f} s, p99 {most:.1f} s, {len(pauses)} of {len(moves)} moves",
        bool(most <= PAUSE) and len(pauses) == len(moves),
    )


def _uneven(rows: Sequence[Row]) -> TextBar:
    after = over_runs(rows, "uneven", step="after")
    before = of([unmoved(row) for row in selected(rows, step="after")])
    by_slots = max(int(row["by_slots"]) for row in rows)
    return TextBar(
        f"live, uneven: ours leaves at most {UNEVEN:.0%} of the unevenness that slot counting leaves",
        f"{after}; slot counting {before} with the same loads, and {by_slots} moves",
        after.middle <= UNEVEN * before.middle and not by_slots,
    )
