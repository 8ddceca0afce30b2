"""Sluice's own plan: by measured load and speed, with the fewest moves, and only where they pay.

1. A unit stays where it runs, unless its host is gone, has too few slots, or has another of its group. One
   that is fixed stays in any case.
2. Units without a host are placed, the heaviest first, where they leave the loads most even; where that makes
   no difference, the spread of their application and the slots decide. They have to start anyway, so they
   also even out what was uneven before.
3. Running units move only if there is need: a host is busier than the mean by more than `start`, or idler.
   They then move until no host is busier than the mean by more than `near`, or as even as it gets. Each step
   is the best move or swap of the busiest host. In small clusters branch and bound then looks for a less busy
   busiest host, and for fewer moves. Nothing moves if the busiest host is less than a twentieth busier than
   it would be afterwards.
4. What is still idler than the mean by more than `start` gets units from hosts above the mean.

Between `start` and `near` nothing happens: a cluster that was just evened out does not move at each change of
a load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.placement import branch, greedy, steps
from sluice.placement.base import Cluster, Move, Plan, Unplaced, check
from sluice.placement.board import NOWHERE, Figures, Numbers, PlacementBoard, PlacementInput

#: The busiest host must be busier than after the plan, by this part of that.
PAYS = 0.05
_CLOSE = 0.005
#: The most hosts set aside because nothing can help them, as one with a single heavy unit; one more for each
#: host with fixed units.
_HOPELESS = 8


@dataclass(frozen=True)
class Policy:
    """When running units move.

    start: how far from the mean a host must be, paper 004's Th. near: how far it may stay. budget: the most
    running units that may move; None for any number. small: clusters of at most so many units are also
    searched by branch and bound.
    """

    start: float = 0.15
    near: float = 0.02
    budget: int | None = None
    small: int = 20


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
        self._given = given = PlacementInput.of(cluster)
        numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
        running = cluster.running()
        self._before: Numbers = np.array(
            [numbers[running[unit.name]] if unit.name in running else NOWHERE for unit in cluster.units],
            np.int64,
        )
        self._fixed = np.array([unit.fixed for unit in cluster.units], np.bool_)
        self._board = PlacementBoard(given, np.full(len(cluster.units), NOWHERE, np.int64))
        kept = self._fixed & (self._before != NOWHERE)
        loads = np.bincount(self._before[kept], given.weights[kept], len(cluster.hosts))
        self._least: Figures = loads / given.speeds  # how busy hosts are by fixed units alone
        self._order: list[int] = []  # units that have moved, in order
        self._moved = np.zeros(len(cluster.units), np.bool_)
        self._why: dict[int, str] = {}

    def run(self) -> Plan:
        self._stay()
        due = self._board.host == NOWHERE
        unplaced = self._place(due)
        self._even_out(due & (self._board.host != NOWHERE), free=True)
        self._even_out((self._board.host != NOWHERE) & ~self._fixed, free=False)
        self._fill()
        wanted = self._wanted(self._order, self._board.host)
        return steps.ordered(self._cluster, wanted, unplaced, self._policy.budget)

    def _stay(self) -> None:
        """Leave each unit where it runs, if it may stay there; fixed ones first, then the heaviest."""
        order = np.lexsort((-self._given.weights, ~self._fixed))
        for unit in (int(n) for n in order if self._before[n] != NOWHERE):
            host = int(self._before[unit])
            if self._fixed[unit] or self._board.may(unit)[host]:
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
        self._board = greedy.placed(self._board, order)
        self._order += [unit for unit in order if self._board.host[unit] != NOWHERE]
        left = [unit for unit in order if self._board.host[unit] == NOWHERE]
        return [Unplaced(self._cluster.units[unit].name, self._no_room(unit)) for unit in left]

    def _no_room(self, unit: int) -> str:
        named, free = self._cluster.units[unit], self._board.free[self._given.allows(unit)]
        if not len(free):
            return "no host that takes units may have it: give one its role"
        if (free >= named.slots).any():
            return f"every host with {named.slots} free slots has another of group {named.group}: add a host"
        most = int(free.max())
        return f"it takes {named.slots} slots, and the most that a host has free is {max(most, 0)}: add slots"

    def _even_out(self, movable: NDArray[np.bool_], *, free: bool) -> None:
        """Lower the busiest host, then the busiest of the others, as long as one is too busy.

        free: the units have to start or move anyway.
        """
        board, policy = self._board, self._policy
        start, near = (policy.near, 0.0) if free else (policy.start, policy.near)
        board.closed = np.zeros_like(board.closed)
        most = min(_HOPELESS + int((self._least > 0).sum()), len(board.closed))
        while movable.any() and board.closed.sum() < most and board.busiest > board.level * (1 + start):
            least = board.floor * (1 + policy.near)
            pays = board.busiest / (1 + (_CLOSE if free else PAYS))
            moves = self._lowest(movable, least, near, free=free)
            if moves and board.after(moves).busiest <= pays:
                self._take(moves, free=free)
                if free:  # nothing runs yet, so the same units may change again
                    continue
            if board.busiest > board.level * (1 + start):
                board.closed = board.closed.copy()
                board.closed[self._hopeless()] = True

    def _hopeless(self) -> int:
        """The host to set aside: the busiest, or one that is about as busy by its fixed units alone."""
        board = self._board
        stuck = np.flatnonzero((self._least >= board.busiest / (1 + PAYS)) & ~board.closed)
        return int(stuck[0]) if len(stuck) else int(board.open_busy.argmax())

    def _lowest(
        self, movable: NDArray[np.bool_], least: float, near: float, *, free: bool
    ) -> list[tuple[int, int]]:
        """Moves to a busiest host of `least`; if that is too low, to within `near` of the lowest found."""
        board = self._board
        if board.busiest <= least:
            return []
        moves = [
            move for action in greedy.lowered(board, movable & ~self._moved, least, near) for move in action
        ]
        if len(board.host) > self._policy.small:
            return moves
        home = np.full_like(board.host, NOWHERE) if free else self._before
        first = board.after(moves)
        low = branch.better(first, home, movable, least, self._reachable)
        enough = max(least, low.busiest * (1 + near))
        found = branch.better(low, home, movable, enough, self._reachable)
        if found is first:
            return moves
        return [(int(unit), int(found.host[unit])) for unit in np.flatnonzero(found.host != board.host)]

    def _take(self, moves: list[tuple[int, int]], *, free: bool) -> None:
        busy = self._board.busy
        for unit, host in moves:
            self._move(unit, host, busy)
        if free:
            self._moved[:] = False

    def _reachable(self, hosts: Numbers) -> bool:
        """Whether all units can get to these hosts, in whatever order they move."""
        wanted = self._wanted([n for n, host in enumerate(hosts) if host != NOWHERE], hosts)
        found = steps.ordered(self._cluster, wanted, [], None)
        return sum(map(len, found.steps)) == len(wanted)

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
                self._move(unit, target, board.busy)

    def _filling(self, target: int, under: float) -> int | None:
        """The unit that fills the target best. Its source stays busier than the target or the limit."""
        board, given, busy = self._board, self._given, self._board.open_busy
        units = np.flatnonzero((board.host != NOWHERE) & ~self._moved & ~self._fixed)
        sources = board.host[units]
        left = (board.load[sources] - given.weights[units]) / given.speeds[sources]
        after = (board.load[target] + given.weights[units]) / given.speeds[target]
        kept = left >= np.minimum(under, after)
        pays = (busy[sources] > board.level) & (after < busy[sources]) & kept
        order = np.lexsort((units, np.maximum(left, after), np.maximum(under - after, 0.0)))
        allowed = (int(units[n]) for n in order if pays[n] and board.may(int(units[n]))[target])
        return next(allowed, None)

    def _move(self, unit: int, host: int, busy: Figures) -> None:
        """busy: how busy the hosts are that ask for it."""
        board = self._board
        closed = [self._cluster.hosts[n].name for n in np.flatnonzero(board.closed)]
        mean = f"the mean without {', '.join(closed)}" if closed else "the mean"
        source = int(board.host[unit])
        over, under = busy[source] / board.level - 1, 1 - busy[host] / board.level
        if max(over, under) <= 0:
            why = f"it makes room on {self._cluster.hosts[source].name}"
        elif over >= under:
            why = f"{self._cluster.hosts[source].name} is {over:.0%} busier than {mean}"
        else:
            why = f"{self._cluster.hosts[host].name} is {under:.0%} idler than {mean}"
        self._why.setdefault(unit, why)
        board.give(unit, host)
        self._moved[unit] = True
        if unit in self._order:
            self._order.remove(unit)
        self._order.append(unit)

    def _wanted(self, units: Sequence[int], to: Numbers) -> list[Move]:
        """The starts and moves of these units to these hosts, in their order."""
        wanted: list[Move] = []
        hosts = [host.name for host in self._cluster.hosts]
        for unit in units:
            name, target, before = self._cluster.units[unit].name, int(to[unit]), int(self._before[unit])
            if before == NOWHERE:
                gone = self._cluster.placed.get(name)
                lost = f"its host {gone} {'may not have it' if gone in hosts else 'is gone'}"
                why = "it does not run yet" if gone is None else lost
                wanted.append(Move(name, None, hosts[target], why))
            elif before != target:
                wanted.append(Move(name, hosts[before], hosts[target], self._why.get(unit, "")))
        return wanted
