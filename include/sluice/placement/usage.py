"""Slot usage, and paper 004's placement: slot-usage-low-first."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from sluice.placement.base import Cluster, Placed


def slots_used(cluster: Cluster, placed: Placed) -> dict[str, int]:
    """Nus, the slots in use on each host. Units on other hosts do not count."""
    used = dict.fromkeys((host.name for host in cluster.hosts), 0)
    for unit in cluster.units:
        host = placed.get(unit.name)
        if host in used:
            used[host] += unit.slots
    return used


def usage(cluster: Cluster, placed: Placed) -> dict[str, Fraction]:
    """Nas = Nus / Ns of each host."""
    used = slots_used(cluster, placed)
    return {host.name: Fraction(used[host.name], host.slots) for host in cluster.hosts}


def mean_usage(cluster: Cluster, placed: Placed) -> Fraction:
    """As = Us / Ts, over all hosts."""
    total = sum(host.slots for host in cluster.hosts)
    return Fraction(sum(slots_used(cluster, placed).values()), total) if total else Fraction(0)


def low_usage_first(cluster: Cluster) -> dict[str, str]:
    """Paper 004's placement: every unit that does not run goes to the host whose usage is lowest.

    Units are placed in their order, as topologies are submitted one after the other. Of hosts with equal
    usage the one with fewest units of the application is taken, then the first by name. A unit that fits
    nowhere stays without a host.
    """
    placed = cluster.running()
    used = slots_used(cluster, placed)
    applications = Counter(
        (placed[unit.name], unit.application) for unit in cluster.units if unit.name in placed
    )
    for unit in cluster.units:
        if unit.name in placed:
            continue
        fitting = [host for host in cluster.hosts if host.slots - used[host.name] >= unit.slots]
        if not fitting:
            continue
        rank = [
            (
                Fraction(used[host.name], host.slots),
                applications[host.name, unit.application] if unit.application else 0,
                host.name,
            )
            for host in fitting
        ]
        (_, _, host) = min(rank)
        placed[unit.name] = host
        used[host] += unit.slots
        applications[host, unit.application] += 1
    return placed
