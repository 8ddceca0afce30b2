"""Every contender on every input: rows of figures."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from sluice.placement.base import Cluster
from sluice.placement.measures import colocations, load_spread, moves, usage_spread
from sluice.placement.migration import MENDED, PAPER, Queue, migrate
from sluice.placement.plan import DEFAULT, plan
from sluice.placement.usage import low_usage_first, slots_used
from sluice_lab.placement.inputs import INPUTS, SEED, large, paper, random_inputs
from sluice_lab.placement.optimum import fewest_moves, least_busiest, within
from sluice_lab.placement.rivals import SCHEDULERS
from sluice_lab.trials import Row

OURS = "ours"
#: The inputs with an optimum are the first this many of those that are small.
OPTIMA = 200
SMALL_UNITS = 10
REPEATS = 3
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)
FIGURES = ("usage", "load", "moved", "colocated")

Placer = Callable[[Cluster], dict[str, str]]


def ours(cluster: Cluster) -> dict[str, str]:
    return plan(cluster).result(cluster)


def _migrated(pairs: tuple[tuple[Queue, Queue], ...]) -> Placer:
    return lambda cluster: migrate(cluster, pairs).placed


def _again(scheduler: Placer) -> Placer:
    """Schedulers that never move a unit: somebody has them place all units again."""
    return lambda cluster: scheduler(cluster.having({}))


PLACERS: dict[str, Placer] = {**SCHEDULERS, OURS: ours}
MOVERS: dict[str, Placer] = {
    **{f"{name}, again": _again(scheduler) for name, scheduler in SCHEDULERS.items()},
    "paper's migration": _migrated(PAPER),
    "mended migration": _migrated(MENDED),
    OURS: ours,
}


def paper_rows() -> Iterator[Row]:
    """Paper 004's experiment: the slots in use on each host, after placing and after hosts joined.

    start: the placement from which a migration begins, by its scheduler.
    """
    given = paper()
    for name, placer in PLACERS.items():
        placed = placer(given.first)
        yield {"start": "", "contender": name, **_slots(given.first, placed), "moved": 0, "stalled": 0}
    for start in ("storm-0.8", "paper"):
        cluster = given.joined(PLACERS[start](given.first))
        for name, pairs in (("paper's migration", PAPER), ("mended migration", MENDED)):
            found = migrate(cluster, pairs)
            moved: Row = {"moved": len(found.moves), "stalled": int(found.stalled)}
            yield {"start": start, "contender": name, **_slots(cluster, found.placed), **moved}
        placed = ours(cluster)
        moved = {"moved": moves(cluster.placed, placed), "stalled": 0}
        yield {"start": start, "contender": OURS, **_slots(cluster, placed), **moved}


def random_rows(count: int = INPUTS, seed: int = SEED) -> Iterator[Row]:
    """For each step, contender and figure: its quantiles and mean over the random inputs.

    place: nothing runs yet. join: the units run where slot-usage-low-first put them, and hosts join.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for given in random_inputs(count, seed):
        joined = given.joined(low_usage_first(given.first))
        for step, cluster, contenders in (("place", given.first, PLACERS), ("join", joined, MOVERS)):
            for name, placer in contenders.items():
                measured = figures(cluster, placer(cluster))
                for figure in FIGURES:
                    found.setdefault((step, name, figure), []).append(measured[figure])
    for (step, name, figure), values in found.items():
        labels: Row = {"step": step, "contender": name, "figure": figure, "inputs": len(values), "seed": seed}
        yield labels | quantiles(values)


def optimum_rows(count: int = OPTIMA, seed: int = SEED) -> Iterator[Row]:
    """For the small random inputs, a row each: ours and the optimum.

    place, join: the busiest host of ours over that of the optimum, - 1. moved: running units that ours moves;
    fewest: the fewest after which no host is busier or idler than ours leaves it.
    """
    for number, given in enumerate(random_inputs(INPUTS, seed)):
        if len(given.first.units) > SMALL_UNITS:
            continue
        if count == 0:
            return
        count -= 1
        cluster = given.joined(low_usage_first(given.first))
        placed = ours(cluster)
        best, best_joined = least_busiest(given.first), least_busiest(cluster)
        fewest = fewest_moves(cluster, *within(cluster, placed, DEFAULT.start))
        if best is None or best_joined is None or fewest is None:
            continue
        yield {
            "input": number,
            "place": (1 + load_spread(given.first, ours(given.first))) / best - 1,
            "join": (1 + load_spread(cluster, placed)) / best_joined - 1,
            "moved": moves(cluster.placed, placed),
            "fewest": fewest,
        }


def large_rows(hosts: int = 200, units: int = 2_000) -> Iterator[Row]:
    """How long ours takes for a large cluster: CPU seconds, the quickest of a few.

    place: nothing runs yet. join: a tenth of the hosts is new. scattered: the units run on hosts by chance.
    """
    given = large(hosts, units)
    placed = ours(given.first)
    everywhere = given.joined({})
    dealt = {unit.name: everywhere.hosts[(n * 7919) % hosts].name for n, unit in enumerate(everywhere.units)}
    for step, cluster in (
        ("place", everywhere),
        ("join", given.joined(placed)),
        ("scattered", everywhere.having(dealt)),
    ):
        seconds = []
        for _ in range(REPEATS):
            began = time.process_time()
            found = plan(cluster)
            seconds.append(time.process_time() - began)
        after = found.result(cluster)
        yield {
            "step": step,
            "seconds": min(seconds),
            "before": load_spread(cluster, cluster.placed) if cluster.placed else 0.0,
            "load": load_spread(cluster, after),
            "moved": len(found.moves),
            "colocated": colocations(cluster, after),
        }


def figures(cluster: Cluster, placed: dict[str, str]) -> dict[str, float]:
    """usage, load: max / mean - 1. moved: running units. colocated: pairs of a group on one host."""
    return {
        "usage": usage_spread(cluster, placed),
        "load": load_spread(cluster, placed),
        "moved": float(moves(cluster.placed, placed)),
        "colocated": float(colocations(cluster, placed)),
    }


def _slots(cluster: Cluster, placed: dict[str, str]) -> Row:
    used: Sequence[int] = list(slots_used(cluster, placed).values())
    return {"slots": "/".join(map(str, used)), "usage": usage_spread(cluster, placed)}


def quantiles(values: Iterable[float]) -> Row:
    """Columns with the quantiles and the mean of at least one value."""
    ordered = sorted(values)
    row: Row = {f"q{quantile:g}": ordered[round(quantile * (len(ordered) - 1))] for quantile in QUANTILES}
    return row | {"mean": statistics.fmean(ordered)}
