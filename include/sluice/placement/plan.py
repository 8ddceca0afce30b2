"""Sluice's own plan: by measured load and speed, with the fewest moves, and only where they pay.

1. A unit stays where it runs, unless its host is gone, has too few slots, or has another of its group.
2. Units without a host are placed, the heaviest first, where they leave the loads most even; where that makes
   no difference, the spread of their application and the slots decide. They have to start anyway, so they
   also even out what was uneven before.
3. Running units move only if there is need: a host is busier than the mean by more than `start`, or idler.
   They then move until no host is busier than the mean by more than `near`, or as even as it gets, by as few
   moves as the search finds. A plan that would lower the busiest host by less than a twentieth is not made.
4. What is still idler than the mean by more than `start` gets units from hosts above the mean.

Between `start` and `near` nothing happens: a cluster that was just evened out does not move at each change of
a load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.placement import search, steps
from sluice.placement.base import Cluster, Move, Plan, Unplaced, check
from sluice.placement.board import NOWHERE, Board, Given, Numbers

#: A plan must lower the busiest host by this part of it.
PAYS = 0.05
_CLOSE = 0.005
#: Hosts that nothing can help, as one with a single heavy unit, are set aside, up to so many.
_HOPELESS = 8


@dataclass(frozen=True)
class Policy:
    """When running units move.

    start: how far from the mean a host must be, paper 004's Th. near: how far it may stay. budget: the most
    running units that may move; None for any number.
    """

    start: float = 0.15
    near: float = 0.02
    budget: int | None = None


DEFAULT = Policy()


def plan(cluster: Cluster, policy: Policy = DEFAULT) -> Plan:
    """What should start and move. Raises ClusterRefused.

    The same cluster gets the same plan, in whatever order it is described.
    """
    check(cluster)
    cluster = cluster.ordered()
    if not cluster.hosts:
        why = "there is no host: describe one"
        return Plan(unplaced=tuple(Unplaced(unit.name, why) for unit in cluster.units))
    return _Planner(cluster, policy).run()


class _Planner:
    def __init__(self, cluster: Cluster, policy: Policy) -> None:
        self._cluster, self._policy = cluster, policy
        self._given = given = Given.of(cluster)
        numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
        running = cluster.running()
        self._before: Numbers = np.array(
            [numbers[running[unit.name]] if unit.name in running else NOWHERE for unit in cluster.units],
            np.int64,
        )
        self._board = Board(given, np.full(len(cluster.units), NOWHERE, np.int64))
        self._order: list[int] = []  # units that have moved, in order
        self._moved = np.zeros(len(cluster.units), np.bool_)
        self._why: dict[int, str] = {}

    def run(self) -> Plan:
        self._stay()
        due = self._board.host == NOWHERE
        unplaced = self._place(due)
        self._even_out(due & (self._board.host != NOWHERE), free=True)
        self._even_out(self._board.host != NOWHERE, free=False)
        self._fill()
        return self._plan(unplaced)

    def _stay(self) -> None:
        """Leave each unit where it runs, if it may stay there; the heaviest first."""
        running = [n for n in np.argsort(-self._given.weights, kind="stable") if self._before[n] != NOWHERE]
        for unit in map(int, running):
            host = int(self._before[unit])
            if self._board.may(unit)[host]:
                self._board.give(unit, host)
                continue
            name = self._cluster.hosts[host].name
            full = self._board.free[host] < self._given.slots[unit]
            group = self._cluster.units[unit].group
            self._why[unit] = f"{name} has too few slots" if full else f"{name} has another of group {group}"

    def _place(self, due: NDArray[np.bool_]) -> list[Unplaced]:
        """Give every unit that is due a host: those with many slots first, then the heaviest."""
        given = self._given
        order = sorted(map(int, np.flatnonzero(due)), key=lambda n: (-given.slots[n], -given.weights[n], n))
        self._board = search.placed(self._board, order)
        self._order += [unit for unit in order if self._board.host[unit] != NOWHERE]
        left = [unit for unit in order if self._board.host[unit] == NOWHERE]
        return [Unplaced(self._cluster.units[unit].name, self._no_room(unit)) for unit in left]

    def _no_room(self, unit: int) -> str:
        named = self._cluster.units[unit]
        fits = bool((self._board.free >= named.slots).any())
        if fits:
            return f"every host with {named.slots} free slots has another of group {named.group}: add a host"
        most = int(self._board.free.max())
        return f"it takes {named.slots} slots, and the most that a host has free is {max(most, 0)}: add slots"

    def _even_out(self, movable: NDArray[np.bool_], *, free: bool) -> None:
        """Lower the busiest host, then the busiest of the others, as long as one is too busy.

        free: the units have to start or move anyway.
        """
        board, policy = self._board, self._policy
        start, near = (policy.near, 0.0) if free else (policy.start, policy.near)
        board.closed = np.zeros_like(board.closed)
        most = min(_HOPELESS, len(board.closed))
        while movable.any() and board.closed.sum() < most and board.busiest > board.level * (1 + start):
            least = board.floor * (1 + policy.near)
            pays = board.busiest * (1 - (_CLOSE if free else PAYS))
            open_to = movable & ~self._moved
            if board.busiest > least and search.limited(board, open_to, pays).board.busiest <= pays:
                found = search.lowest(board, open_to, least, near)
                if found.board.busiest <= pays:
                    for unit, host in (move for action in found.actions for move in action):
                        self._move(unit, host, "busier")
                    if free:  # nothing runs yet, so the same units may change again
                        self._moved[:] = False
                        continue
            if board.busiest > board.level * (1 + start):
                board.closed = board.closed.copy()
                board.closed[board.open_busy.argmax()] = True

    def _fill(self) -> None:
        """Give units to hosts that are much idler than the mean, from hosts above it."""
        board = self._board
        if board.closed.all():
            return
        under = board.level * (1 - self._policy.start)
        for target in map(int, np.argsort(board.busy, kind="stable")):
            while board.busy[target] < under:
                unit = self._filling(target, under)
                if unit is None:
                    break
                self._move(unit, target, "idler")

    def _filling(self, target: int, under: float) -> int | None:
        """The unit that fills the target best. Its source stays busier than the target or the limit."""
        board, given, busy = self._board, self._given, self._board.open_busy
        units = np.flatnonzero((board.host != NOWHERE) & ~self._moved)
        sources = board.host[units]
        left = (board.load[sources] - given.weights[units]) / given.speeds[sources]
        after = (board.load[target] + given.weights[units]) / given.speeds[target]
        kept = left >= np.minimum(under, after)
        pays = (busy[sources] > board.level) & (after < busy[sources]) & kept
        order = np.lexsort((units, np.maximum(left, after), np.maximum(under - after, 0.0)))
        allowed = (int(units[n]) for n in order if pays[n] and board.may(int(units[n]))[target])
        return next(allowed, None)

    def _move(self, unit: int, host: int, need: str) -> None:
        """need: which of its hosts asked for it, the one that is busier or the one that is idler."""
        board = self._board
        about = int(board.host[unit]) if need == "busier" else host
        off = abs(board.busy[about] / board.level - 1)
        closed = [self._cluster.hosts[n].name for n in np.flatnonzero(board.closed)]
        mean = f"the mean without {', '.join(closed)}" if closed else "the mean"
        self._why.setdefault(unit, f"{self._cluster.hosts[about].name} is {off:.0%} {need} than {mean}")
        board.give(unit, host)
        self._moved[unit] = True
        if unit in self._order:
            self._order.remove(unit)
        self._order.append(unit)

    def _plan(self, unplaced: list[Unplaced]) -> Plan:
        wanted: list[Move] = []
        hosts, units = self._cluster.hosts, self._cluster.units
        for unit in self._order:
            name, target = units[unit].name, hosts[int(self._board.host[unit])].name
            before = int(self._before[unit])
            if before == NOWHERE:
                gone = self._cluster.placed.get(name)
                why = "it does not run yet" if gone is None else f"its host {gone} is gone"
                wanted.append(Move(name, None, target, why))
            elif hosts[before].name != target:
                wanted.append(Move(name, hosts[before].name, target, self._why[unit]))
        return steps.ordered(self._cluster, wanted, unplaced, self._policy.budget)
