"""What a placement is worth: how even it is, what it moves, and which groups it puts together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sluice.placement.base import Cluster, Placed
from sluice.placement.usage import mean_usage, usage
from sluice.placement.weights import lower_bound, weigh


def usage_spread(cluster: Cluster, placed: Placed) -> float:
    """max / mean - 1 of the hosts' slot usage; 0 is even."""
    mean = mean_usage(cluster, placed)
    return float(max(usage(cluster, placed).values()) / mean - 1) if mean else 0.0


def shares(cluster: Cluster, placed: Placed) -> dict[str, float]:
    """Load over speed of each host, as a part of what all would have if all were equally busy."""
    weights = weigh(cluster)
    loads = {host.name: 0 for host in cluster.hosts}
    for unit, weight in zip(cluster.units, weights.units, strict=True):
        if placed.get(unit.name) in loads:
            loads[placed[unit.name]] += weight
    level = sum(loads.values()) / sum(weights.hosts)
    if not level:
        return dict.fromkeys(loads, 1.0)
    return {
        name: load / speed / level for (name, load), speed in zip(loads.items(), weights.hosts, strict=True)
    }


def load_spread(cluster: Cluster, placed: Placed) -> float:
    """max / mean - 1 of the hosts' load over speed; 0 is even."""
    return max(shares(cluster, placed).values()) - 1


def least_spread(cluster: Cluster) -> float:
    """A lower bound of `load_spread`: no placement of all units is more even. It may not be reached."""
    weights = weigh(cluster)
    level = sum(weights.units) / sum(weights.hosts)
    return lower_bound(weights.units, weights.hosts) / level - 1 if level else 0.0


def moves(before: Placed, after: Placed) -> int:
    """Units that run before and after, on different hosts."""
    return sum(after.get(unit, host) != host for unit, host in before.items())


def colocations(cluster: Cluster, placed: Placed) -> int:
    """Pairs of units of one group on one host."""
    together = Counter(
        (placed[unit.name], unit.group)
        for unit in cluster.units
        if unit.group is not None and unit.name in placed
    )
    return sum(count * (count - 1) // 2 for count in together.values())


def without_room(cluster: Cluster, placed: Mapping[str, str]) -> list[str]:
    """Units that have no host."""
    return [unit.name for unit in cluster.units if unit.name not in placed]
