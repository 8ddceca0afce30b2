"""Who runs where while a plan is made. Units, hosts, groups and applications are numbers, in sorted order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.placement.base import Cluster
from sluice.placement.weights import lower_bound, weigh

NOWHERE = -1
Numbers = NDArray[np.int64]
Figures = NDArray[np.float64]


@dataclass(frozen=True)
class PlacementInput:
    """What does not change: weights and slots of units, speeds and slots of hosts, who belongs together.

    group, application: the other units of each unit's group and application, itself included; empty if it is
    in none. allowed: which hosts each unit may get; None if each may get all.
    """

    weights: Numbers
    slots: Numbers
    speeds: Figures
    room: Numbers
    group: Sequence[Numbers]
    application: Sequence[Numbers]
    allowed: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, cluster: Cluster) -> PlacementInput:
        weights = weigh(cluster)
        return cls(
            np.array(weights.units, np.int64),
            np.array([unit.slots for unit in cluster.units], np.int64),
            np.array(weights.hosts, np.float64),
            np.array([host.slots for host in cluster.hosts], np.int64),
            _alike([unit.group for unit in cluster.units]),
            _alike([unit.application for unit in cluster.units]),
            _allowed(cluster),
        )

    def allows(self, unit: int) -> NDArray[np.bool_]:
        """The hosts that may have the unit."""
        return np.ones(len(self.room), np.bool_) if self.allowed is None else self.allowed[unit]

    @property
    def level(self) -> float:
        """How busy all hosts would be if all were equally busy."""
        return float(self.weights.sum() / self.speeds.sum())


class PlacementBoard:
    """A placement in the making.

    host: of each unit, or NOWHERE. load, free: of each host, its weights and its free slots. closed: hosts
    that nothing can help, such as one whose only unit is the heaviest of all; they take no part in means, and
    nothing moves to them.
    """

    def __init__(self, given: PlacementInput, host: Numbers) -> None:
        self.given, self.host = given, host.copy()
        here = host != NOWHERE
        count = len(given.room)
        self.load = np.bincount(host[here], given.weights[here], count).astype(np.int64)
        self.free = given.room - np.bincount(host[here], given.slots[here], count).astype(np.int64)
        self.closed = np.zeros(count, np.bool_)

    def copy(self) -> PlacementBoard:
        made = PlacementBoard.__new__(PlacementBoard)
        made.given = self.given
        made.host, made.load, made.free = self.host.copy(), self.load.copy(), self.free.copy()
        made.closed = self.closed
        return made

    def after(self, moves: Iterable[tuple[int, int]]) -> PlacementBoard:
        """The board after units got these hosts."""
        made = self.copy()
        for unit, host in moves:
            made.give(unit, host)
        return made

    @property
    def busy(self) -> Figures:
        """Load over speed of each host."""
        return self.load / self.given.speeds

    @property
    def open_busy(self) -> Figures:
        """The same, and 0 for closed hosts."""
        return np.where(self.closed, 0.0, self.busy)

    @property
    def busiest(self) -> float:
        return float(self.open_busy.max())

    @property
    def level(self) -> float:
        """How busy the hosts that are open would be if all of them were equally busy."""
        return float(self.load[~self.closed].sum() / self.given.speeds[~self.closed].sum())

    @property
    def floor(self) -> float:
        """Wherever the units of the open hosts are among these, the busiest host is not below this."""
        here = (self.host != NOWHERE) & ~self.closed[self.host]
        return lower_bound(self.given.weights[here], self.given.speeds[~self.closed])

    def give(self, unit: int, host: int) -> None:
        """Move the unit to the host, or take it from all with NOWHERE."""
        weight, slots, source = self.given.weights[unit], self.given.slots[unit], self.host[unit]
        if source != NOWHERE:
            self.load[source] -= weight
            self.free[source] += slots
        if host != NOWHERE:
            self.load[host] += weight
            self.free[host] -= slots
        self.host[unit] = host

    def may(self, unit: int) -> NDArray[np.bool_]:
        """Which open hosts may have the unit, have the slots for it, and no other of its group."""
        allowed: NDArray[np.bool_] = (self.free >= self.given.slots[unit]) & ~self.closed
        if self.given.allowed is not None:
            allowed &= self.given.allowed[unit]
        others = self.host[self.given.group[unit]]
        allowed[others[others != NOWHERE]] = False
        return allowed

    def alike(self, unit: int) -> Numbers:
        """How many units of the unit's application each host has."""
        others = self.host[self.given.application[unit]]
        return np.bincount(others[others != NOWHERE], minlength=len(self.free))


def _allowed(cluster: Cluster) -> NDArray[np.bool_] | None:
    if all(unit.hosts is None for unit in cluster.units):
        return None
    rows = [
        [unit.hosts is None or host.name in unit.hosts for host in cluster.hosts] for unit in cluster.units
    ]
    return np.array(rows, np.bool_)


def _alike(names: Sequence[str | None]) -> list[Numbers]:
    members: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        if name is not None:
            members.setdefault(name, []).append(number)
    arrays = {name: np.array(numbers, np.int64) for name, numbers in members.items()}
    nobody = np.array([], np.int64)
    return [nobody if name is None else arrays[name] for name in names]
