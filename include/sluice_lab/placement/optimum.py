"""The least uneven placement, and the fewest moves to one: integer programs, solved by HiGHS.

Whether unit u runs on host h is a variable of 0 or 1. Each unit runs on one host, a host's units fit its
slots, and no two of a group share a host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sluice.placement.base import Cluster, Placed
from sluice.placement.measures import shares
from sluice.placement.weights import weigh

#: A solver that needs longer has no answer.
SECONDS = 20.0
_ROUNDING = 1e-7
_GAP = 1e-3


def least_busiest(cluster: Cluster) -> float | None:
    """The least possible load over speed of the busiest host, over the mean; None without an answer.

    The solver may stop within a thousandth of it; then this is what is proved to be impossible to undercut.
    """
    weights, speeds = _numbers(cluster)
    units, hosts = len(weights), len(speeds)
    rows, low, high = _placement(cluster, extra=1)
    for h in range(hosts):
        row = _row(units, hosts, extra=1)
        row[:-1].reshape(units, hosts)[:, h] = weights
        row[-1] = -speeds[h]
        rows.append(row)
        low.append(-np.inf)
        high.append(0.0)
    cost = _row(units, hosts, extra=1)
    cost[-1] = 1.0
    found = _solved(cost, rows, low, high, whole=units * hosts)
    return None if found is None else float(found.mip_dual_bound)


def fewest_moves(cluster: Cluster, at_most: Mapping[str, float], at_least: float) -> int | None:
    """The fewest running units that must move so that no host is busier or idler; None without an answer.

    at_most: load over speed, over the mean, by host. at_least: the same, for all hosts.
    """
    weights, speeds = _numbers(cluster)
    units, hosts = len(weights), len(speeds)
    rows, low, high = _placement(cluster)
    for h, host in enumerate(cluster.hosts):
        row = _row(units, hosts)
        row.reshape(units, hosts)[:, h] = weights
        rows.append(row)
        low.append(at_least * speeds[h] - _ROUNDING)
        high.append(at_most[host.name] * speeds[h] + _ROUNDING)
    cost = _row(units, hosts)
    running = cluster.running()
    numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
    for u, unit in enumerate(cluster.units):
        if unit.name in running:
            cost.reshape(units, hosts)[u, :] = 1.0
            cost.reshape(units, hosts)[u, numbers[running[unit.name]]] = 0.0
    found = _solved(cost, rows, low, high, whole=units * hosts)
    return None if found is None else round(found.fun)


def within(cluster: Cluster, placed: Placed, start: float) -> tuple[dict[str, float], float]:
    """What `fewest_moves` needs in order to be no less even than this placement.

    Hosts that are busier than the mean by more than `start`, as one with a single heavy unit, may be as busy
    as they are; all others as busy as the busiest of them.
    """
    busy = shares(cluster, placed)
    others = [each for each in busy.values() if each <= 1 + start] or [max(busy.values())]
    return {host: max(each, *others) for host, each in busy.items()}, min(busy.values())


def _numbers(cluster: Cluster) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weights of units and speeds of hosts, each as a part of their sum."""
    weights = weigh(cluster)
    units, hosts = np.array(weights.units, np.float64), np.array(weights.hosts)
    return units / units.sum(), hosts / hosts.sum()


def _row(units: int, hosts: int, extra: int = 0) -> NDArray[np.float64]:
    return np.zeros(units * hosts + extra)


def _placement(
    cluster: Cluster, extra: int = 0
) -> tuple[list[NDArray[np.float64]], list[float], list[float]]:
    """The rows that every placement obeys, with their lowest and highest values."""
    units, hosts = len(cluster.units), len(cluster.hosts)
    rows: list[NDArray[np.float64]] = []
    low: list[float] = []
    high: list[float] = []

    def add(some: NDArray[np.float64], least: float, most: float) -> None:
        rows.append(np.concatenate([some.ravel(), np.zeros(extra)]))
        low.append(least)
        high.append(most)

    for u in range(units):
        row = np.zeros((units, hosts))
        row[u, :] = 1.0
        add(row, 1.0, 1.0)
    groups = sorted({unit.group for unit in cluster.units if unit.group is not None})
    for h, host in enumerate(cluster.hosts):
        row = np.zeros((units, hosts))
        row[:, h] = [unit.slots for unit in cluster.units]
        add(row, 0.0, host.slots)
        for group in groups:
            row = np.zeros((units, hosts))
            row[:, h] = [unit.group == group for unit in cluster.units]
            add(row, 0.0, 1.0)
    return rows, low, high


def _solved(
    cost: NDArray[np.float64],
    rows: list[NDArray[np.float64]],
    low: list[float],
    high: list[float],
    whole: int,
) -> Any | None:
    from scipy.optimize import Bounds, LinearConstraint, milp

    integral = np.zeros(len(cost))
    integral[:whole] = 1
    most = np.full(len(cost), np.inf)
    most[:whole] = 1.0
    found = milp(
        cost,
        integrality=integral,
        bounds=Bounds(0.0, most),
        constraints=LinearConstraint(np.array(rows), low, high),
        options={"time_limit": SECONDS, "mip_rel_gap": _GAP},
    )
    return found if found.status == 0 else None
