"""How far greedy steps, Sluice's plan and the lower bound are from what an exact search finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sluice.placement.base import Cluster
from sluice.placement.measures import least_spread, load_spread, moves
from sluice.placement.plan import DEFAULT, plan
from sluice.placement.usage import low_usage_first
from sluice_lab.placement.computed import OURS, quantiles
from sluice_lab.placement.exact import ExactSearch
from sluice_lab.placement.inputs import INPUTS, SEED, random_inputs
from sluice_lab.placement.optimum import within
from sluice_lab.trials import Row

GREEDY, BOUND = "greedy", "lower bound"
#: What is near: over the least busy busiest host, and moves over the fewest.
SPREAD, MOVES = 0.05, 1
_POLICIES = {GREEDY: replace(DEFAULT, small=0), OURS: DEFAULT}


def distance_rows(count: int = INPUTS, seed: int = SEED) -> Iterator[Row]:
    """For each step, contender and figure: its quantiles and mean over the random inputs.

    over: the busiest host over the least busy one that is possible, - 1; of the lower bound it is 0 or less.
    more: running units that move beyond the fewest after which no host is busier or idler. The step `place`
    moves none; where the search for the fewest was too long, an input is left out. near: how many inputs are
    near.
    """
    found: dict[tuple[str, str, str], list[float]] = {}
    for given in random_inputs(count, seed):
        simple = low_usage_first(given.first)
        for step, cluster in (("place", given.first), ("join", given.joined(simple))):
            placed = {name: plan(cluster, policy).result(cluster) for name, policy in _POLICIES.items()}
            least = ExactSearch.of(cluster, placed[OURS]).lowest()
            found.setdefault((step, BOUND, "over"), []).append((1 + least_spread(cluster)) / least - 1)
            for name, after in placed.items():
                over = (1 + load_spread(cluster, after)) / least - 1
                found.setdefault((step, name, "over"), []).append(over)
                fewest = _fewest(cluster, after) if step == "join" else None
                if fewest is not None:
                    more = moves(cluster.placed, after) - fewest
                    found.setdefault((step, name, "more"), []).append(float(more))
    for (step, name, figure), values in found.items():
        near = sum(value <= (SPREAD if figure == "over" else MOVES) for value in values)
        labels: Row = {"step": step, "contender": name, "figure": figure, "inputs": len(values), "seed": seed}
        yield labels | {"near": near} | quantiles(values)


def _fewest(cluster: Cluster, placed: dict[str, str]) -> int | None:
    exact = ExactSearch.of(cluster, cluster.placed)
    most, least = within(cluster, placed, DEFAULT.start)
    hosts = exact.fewest(
        np.array([most[host.name] for host in cluster.hosts]), np.full(len(cluster.hosts), least)
    )
    return None if hosts is None else int((hosts != exact.board.host).sum())
