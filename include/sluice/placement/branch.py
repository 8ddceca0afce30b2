"""Small clusters: what moves and swaps miss, by branch and bound.

Units get their hosts one after the other, the heaviest first. Each tries first the hosts that stay below what
is enough, of these the one that it has, then the least busy one. A branch ends where it cannot be better than
the best that is known. The search begins with what the greedy steps found, and gives up after a fixed number
of branches and not of seconds, so it finds the same on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sluice.placement.board import NOWHERE, Numbers, PlacementBoard

#: Hosts that one search gives to units before it ends; about 0.2 s.
_BRANCHES = 50_000
#: The least part by which a busiest host must be less busy to be better.
_CLOSE = 0.005
_ROUNDING = 1e-9


def better(
    found: PlacementBoard,
    home: Numbers,
    movable: NDArray[np.bool_],
    enough: float,
    reachable: Callable[[Numbers], bool],
) -> PlacementBoard:
    """A placement with a less busy busiest host, down to `enough`, and from there on with fewer moves.

    It is `found` itself if none was found that is better.

    home: the host of each unit that counts as moved if it gets another one; NOWHERE if it never counts.
    movable: the others stay where `found` has them. enough: how busy all hosts may be; below that only moves
    count. reachable: whether units can get to these hosts, in whatever order they move.
    """
    return _Search(found, home, movable, enough, reachable).run()


class _Search:
    def __init__(
        self,
        found: PlacementBoard,
        home: Numbers,
        movable: NDArray[np.bool_],
        enough: float,
        reachable: Callable[[Numbers], bool],
    ) -> None:
        given = found.given
        part = movable & (found.host != NOWHERE) & ~found.closed[found.host]
        self._units = [int(unit) for unit in np.argsort(-given.weights, kind="stable") if part[unit]]
        self._weights, self._slots, self._home = given.weights.tolist(), given.slots.tolist(), home.tolist()
        self._groups = [[int(each) for each in group if each != n] for n, group in enumerate(given.group)]
        self._allowed = [given.allows(unit).tolist() for unit in range(len(home))]
        self._speeds, self._open = given.speeds.tolist(), np.flatnonzero(~found.closed).tolist()
        rest = found.after((unit, NOWHERE) for unit in self._units)
        self._hosts, self._load, self._free = rest.host.tolist(), rest.load.tolist(), rest.free.tolist()
        # Hosts at which nothing was. Of those that are alike, only the first is tried while they are empty.
        self._unused = {host for host in self._open if not self._load[host] and host not in self._home}
        if given.allowed is not None:
            self._unused.clear()
        # The load on each host of the units that are left and at home there.
        self._stays = [0] * len(self._speeds)
        for unit in self._units:
            if home[unit] != NOWHERE:
                self._stays[home[unit]] += self._weights[unit]
        self._lightest = min((self._weights[unit] for unit in self._units), default=0) * (1 - _ROUNDING)
        self._left = sum(self._weights[unit] for unit in self._units)
        self._enough, self._reachable = enough, reachable
        self._best, self._busiest = found, max(found.busiest, enough)
        self._moves = self._moved(found.host)
        self._branches = _BRANCHES

    def _moved(self, hosts: Numbers) -> int:
        return sum(self._home[unit] not in (int(hosts[unit]), NOWHERE) for unit in self._units)

    def run(self) -> PlacementBoard:
        busy = (self._load[host] / self._speeds[host] for host in self._open)
        self._branch(0, max(self._enough, *busy), 0)
        return self._best

    def _branch(self, depth: int, busiest: float, moves: int) -> None:
        """busiest, moves: after the units before this depth; `enough` if they are less busy."""
        if depth == len(self._units):
            self._take(busiest, moves)
            return
        unit = self._units[depth]
        weight, slots, home = self._weights[unit], self._slots[unit], self._home[unit]
        if home != NOWHERE:
            self._stays[home] -= weight
        self._left -= weight
        for busy, moved, _, host in self._tries(unit, busiest, moves):
            self._branches -= 1
            if self._branches < 0:
                break
            self._load[host] += weight
            self._free[host] -= slots
            self._hosts[unit] = host
            if self._promising(depth, busy, moved):
                self._branch(depth + 1, busy, moved)
            self._load[host] -= weight
            self._free[host] += slots
        self._hosts[unit] = NOWHERE
        if home != NOWHERE:
            self._stays[home] += weight
        self._left += weight

    def _tries(self, unit: int, busiest: float, moves: int) -> list[tuple[float, int, float, int]]:
        """The hosts for the unit, the best first: the busiest host and the moves then, and how busy it is."""
        taken = {self._hosts[each] for each in self._groups[unit]}
        found = []
        empty = set[tuple[float, int]]()
        for host in self._open:
            if self._free[host] < self._slots[unit] or host in taken or not self._allowed[unit][host]:
                continue
            load, speed = self._load[host], self._speeds[host]
            if host in self._unused and not load:
                if (speed, self._free[host]) in empty:
                    continue
                empty.add((speed, self._free[host]))
            busy = (load + self._weights[unit]) / speed
            moved = moves + (self._home[unit] not in (host, NOWHERE))
            found.append((max(busiest, busy), moved, busy, host))
        return sorted(found)

    def _promising(self, depth: int, busiest: float, moves: int) -> bool:
        """Whether what comes after the unit at this depth may be better than the best that is known."""
        limit = max(self._busiest * (1 - _CLOSE), self._enough)
        if busiest > limit:
            return False
        heaviest = self._weights[self._units[min(depth + 1, len(self._units) - 1)]]  # of those that are left
        room = 0.0
        for host in self._open:
            gap = limit * self._speeds[host] - self._load[host]
            if gap >= self._lightest and self._free[host]:
                room += gap
            if self._stays[host] > gap:
                moves += math.ceil((self._stays[host] - gap) / heaviest - _ROUNDING)
        return room >= self._left * (1 - _ROUNDING) and (self._busiest > self._enough or moves < self._moves)

    def _take(self, busiest: float, moves: int) -> None:
        hosts = np.array(self._hosts, np.int64)
        if self._reachable(hosts):
            self._busiest, self._moves = busiest, moves
            self._best = self._best.after((unit, int(hosts[unit])) for unit in self._units)
