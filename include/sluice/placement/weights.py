"""Loads and speeds as numbers that can be compared: none is missing.

Weights are whole numbers. Sums of them do not depend on the order of adding, so the same cluster always gets
the same plan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sluice.placement.base import Cluster

#: The weight of a mean slot's load.
MEAN = 1 << 20
#: No host counts as slower than this part of a mean slot.
_SLOWEST = 1e-6


class PlacementWeights(NamedTuple):
    """units: a weight for each, at least 1. hosts: a speed for each; the mean slot has 1."""

    units: list[int]
    hosts: list[float]


def weigh(cluster: Cluster) -> PlacementWeights:
    """The weights of units and hosts, in the order of each.

    What was not measured goes by slots: a unit weighs its slots times the load of a mean slot, a host is as
    fast as its slots times the speed of a mean slot. Where nothing was measured, load over speed is
    therefore the slot usage.
    """
    loads = [(unit.slots, unit.load) for unit in cluster.units]
    speeds = [(host.slots, host.speed) for host in cluster.hosts]
    return PlacementWeights(
        [max(1, round(MEAN * relative)) for relative in _relative(loads)],
        [max(_SLOWEST, relative) for relative in _relative(speeds)],
    )


def lower_bound(weights: ArrayLike, speeds: ArrayLike) -> float:
    """A load over speed that the busiest host has in every placement of all units, whatever their slots.

    The n heaviest units are on n hosts at most, which are at best the fastest. Of more units than hosts, two
    share a host. And all units together are on all hosts.
    """
    heaviest = np.sort(np.asarray(weights, np.float64))[::-1]
    fastest = np.sort(np.asarray(speeds, np.float64))[::-1]
    count = min(len(heaviest), len(fastest))
    if not count:
        return 0.0
    alone = np.cumsum(heaviest[:count]) / np.cumsum(fastest[:count])
    shared = heaviest[count - 1 : count + 1].sum() / fastest[0] if len(heaviest) > len(fastest) else 0.0
    return float(max(alone.max(), shared, heaviest.sum() / fastest.sum()))


def _relative(measured: list[tuple[int, float | None]]) -> list[float]:
    """Each value over that of a mean slot; one that was not measured counts as its slots."""
    total = sum(value for _, value in measured if value is not None)
    slots = sum(slots for slots, value in measured if value is not None)
    if total <= 0:
        return [float(count) for count, _ in measured]
    # The part of the total first: the mean of absurdly small numbers is 0.
    return [float(count) if value is None else value / total * slots for count, value in measured]
