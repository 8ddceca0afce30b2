"""A map of which strategy wins where, and whether `auto` finds it.

The axes are cost a tuple, distinct keys a tuple, and state a key. A point's stream has EDU's most frequent
key and other keys of equal frequency, as many as make the batch's distinct keys the wanted part of its
tuples. So only the three axes vary. `auto` sees what it would see in the speed layer: from the first batch
on, the figures of the strategy that it has chosen.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from sluice.grouping import strategy
from sluice.grouping.auto import Auto, Costs, Decision
from sluice.traffic.edu import EDU
from sluice_lab.bench.grouping_contenders import ContenderSetting, compare
from sluice_lab.bench.grouping_measures import Measured, Ran, seconds
from sluice_lab.bench.grouping_spark import SLOTS, SOURCES, slices
from sluice_lab.bench.grouping_stages import Wait
from sluice_lab.bench.grouping_states import COUNTERS
from sluice_lab.bench.outcome import Bar, Cell, Table
from sluice_lab.bench.spark import CORES
from sluice_lab.bench.timing import median, ratio
from sluice_lab.clusters import equal
from sluice_lab.streams import Independent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COSTS, RATIOS, SIZES = (0.0, 5e-6, 50e-6), (0.001, 0.1, 0.9), (16, 4096)
#: `auto` chooses among the first three; shuffle has the best balance that a rule without a plan can reach.
CONTENDERS = ("combine", "key", "planned", "shuffle")
TUPLES, QUICK_TUPLES, FEW_TUPLES = 400_000, 40_000, 1_000
MOST_STATE = 64_000_000  # bytes of all keys' states, which the driver merges; batches are smaller if need be
ROUNDS = 3
DUEL_ROUNDS = 15
TURNS = 12  # batches that `auto` is shown; the rounds are repeated
NEAR, ENOUGH, WORST = 1.10, 16, 1.5

WHAT = f"""\
The map of {len(COSTS) * len(RATIOS) * len(SIZES)} points has {SLOTS} slots and {SOURCES} sources as well, and
as many tuples a batch as its table says: fewer where all keys' states would be more than
{MOST_STATE // 10**6} MB. {EDU.top:.2%} of them have one key. Where `auto` chooses another strategy than
the one whose median is the best, the two are measured again, {DUEL_ROUNDS} times in turn, and by these
rounds it is judged."""


@dataclass(frozen=True)
class Point:
    """A point of the map.

    cost: seconds a tuple. ratio: distinct keys a tuple, at most 0.92. size: bytes of a key's state.
    """

    cost: float
    ratio: float
    size: int

    def tuples(self, most: int) -> int:
        return int(min(most, MOST_STATE / self.ratio / self.size))

    def __str__(self) -> str:
        return f"{self.cost * 1e6:g} us, {self.ratio:g} distinct, {self.size} B"


POINTS = [Point(*at) for at in itertools.product(COSTS, RATIOS, SIZES)]
CORNERS = [Point(*at) for at in itertools.product(COSTS[::2], RATIOS[::2], SIZES)]


@functools.lru_cache(maxsize=1)  # points with the same keys come one after the other
def stream(tuples: int, ratio: float) -> Independent:
    """One hot key and others, so many that a batch's distinct keys are `ratio` of its tuples.

    n tuples of K equally frequent keys have K (1 - exp(-n/K)) distinct keys.
    """
    others = tuples * (1 - EDU.top)
    part = (ratio * tuples - 1) / others
    each = brentq(lambda x: -np.expm1(-x) / x - part, 1e-6, 1e7)
    keys = max(1, round(others / each))
    frequencies = np.append(EDU.top, np.full(keys, (1 - EDU.top) / keys))
    return Independent(f"hot:{ratio:g}", frequencies)


@dataclass(frozen=True)
class Rated:
    """A point, contenders' median seconds, the choice of `auto`, and its time over the best."""

    point: Point
    tuples: int
    seconds: Mapping[str, float]
    chosen: Decision
    loss: float = 1.0

    @property
    def best(self) -> str:
        return min(self.seconds, key=lambda name: self.seconds[name])


def chosen(measured: Measured, costs: Costs) -> Decision:
    """What `auto` has decided after some batches."""
    auto = Auto(costs)
    for turn in range(TURNS):
        runs = measured[auto.decision.strategy]
        auto.observe(runs[turn % len(runs)].figures)
    return auto.decision


def run(session: SparkSession, quick: bool) -> tuple[list[Bar], list[Table]]:
    most, rounds, duel_rounds = (QUICK_TUPLES, 1, 1) if quick else (TUPLES, ROUNDS, DUEL_ROUNDS)
    costs = costs_here(session, rounds)
    # Points with the same keys come one after the other, so that their stream is made once.
    points = CORNERS if quick else POINTS
    order = sorted(points, key=lambda point: (point.ratio, point.size))
    rated = {
        point: duel(session, rate(session, point, point.tuples(most), rounds, costs), duel_rounds)
        for point in order
    }
    return bars(list(rated.values())), [table([rated[point] for point in points], costs)]


def costs_here(session: SparkSession, rounds: int) -> Costs:
    """The costs that `auto` assumes, for slots that share cores.

    The cost of a second stage is the extra time that a batch of hardly any tuples takes with it. Sending and
    taking a tuple needs a core, so they count as slower by the number of sources or slots per core.
    """
    measured = measure(session, Point(0.0, 0.1, COUNTERS), FEW_TUPLES, 2 * rounds, ("combine", "key"))
    times = seconds(measured)
    usual = Costs()
    return replace(
        usual,
        stage=max(0.0, median(times, "key") - median(times, "combine")),
        send=usual.send * SOURCES / CORES,
        take=usual.take * SLOTS / CORES,
    )


def rate(session: SparkSession, point: Point, tuples: int, rounds: int, costs: Costs) -> Rated:
    measured = measure(session, point, tuples, rounds, CONTENDERS)
    times = seconds(measured)
    return Rated(point, tuples, {name: median(times, name) for name in times}, chosen(measured, costs))


def duel(session: SparkSession, rated: Rated, rounds: int) -> Rated:
    """Measure the choice of `auto` against the best strategy again, if that is another one."""
    best, chosen = rated.best, rated.chosen.strategy
    if chosen != best:
        times = seconds(measure(session, rated.point, rated.tuples, rounds, (best, chosen)))
        rated = replace(rated, loss=ratio(times, chosen, best))
    sys.stderr.write(
        f"  {rated.point}: {best} is best; auto: {chosen}, {rated.chosen.reason}: {rated.loss:.2f} x\n"
    )
    return rated


def measure(
    session: SparkSession, point: Point, tuples: int, rounds: int, names: Sequence[str]
) -> dict[str, list[Ran]]:
    with slices() as folder:
        keys, service = stream(tuples, point.ratio), Wait(point.cost)
        setting = ContenderSetting(keys, tuples, equal(SLOTS), SOURCES, service, point.size, Path(folder))
        return compare(session, {name: strategy(name) for name in names}, setting, rounds, str(point))


def bars(rated: Sequence[Rated]) -> list[Bar]:
    near = sum(each.loss <= NEAR for each in rated)
    return [
        Bar(
            f"auto: points of {len(rated)} on which it is within {NEAR - 1:.0%} of the best strategy",
            near,
            ENOUGH * len(rated) // len(POINTS),
            unit="points",
        ),
        Bar("auto: time over the best strategy's, worst point", max(r.loss for r in rated), WORST, "most"),
    ]


def table(rated: Sequence[Rated], costs: Costs) -> Table:
    columns = ["us a tuple", "distinct", "state, B", "tuples"]
    columns += [f"{name}, s" for name in CONTENDERS]
    columns += ["best", "auto", "auto / best"]
    rows: list[list[Cell]] = [
        [
            f"{each.point.cost * 1e6:g}",
            f"{each.point.ratio:g}",
            f"{each.point.size:,}",
            each.tuples,
            *(each.seconds[name] for name in CONTENDERS),
            each.best,
            each.chosen.strategy,
            each.loss,
        ]
        for each in rated
    ]
    return Table(f"Where which strategy wins; a second stage takes {costs.stage:.2f} s here", columns, rows)
