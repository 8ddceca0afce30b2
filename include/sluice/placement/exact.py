"""Small clusters, exactly: the fewest moves to the least busy hosts, by branch and bound.

Units get their hosts one after the other, the heaviest first, and first the host that they have. A branch
ends where a host is too busy, where what is left does not fit or does not fill hosts that are too idle, and
where too many have moved. A search that would be too long has no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sluice.placement.board import NOWHERE, Figures, Numbers, PlacementBoard
from sluice.placement.search import Found

#: Clusters of more units are not small.
UNITS = 20
#: Branches that one search looks at, and how close to the least busiest host a search comes.
_BRANCHES, _CLOSE = 400_000, 0.002
_ROUNDING = 1e-9
#: The most searches for a placement to which all units can get.
_SEARCHES = 12

Barred = NDArray[np.bool_]


@dataclass(frozen=True)
class ExactSearch:
    """Searches from where the units of a board are; each of them has a host.

    costs: of each unit, 1 if it counts as a move to give it another host, else 0. movable: the others stay.
    stuck: the units that cannot get to their hosts among these, in whatever order all move. Two of a group
    cannot change places, for example. The search is then repeated, each time without one unit's such host.
    """

    board: PlacementBoard
    costs: Numbers
    movable: NDArray[np.bool_]
    stuck: Callable[[Numbers], list[int]]

    def lowest(self, least: float, near: float) -> Found | None:
        """The fewest moves to a busiest host of `least`; if that is too low, to within `near` of the lowest.

        As `search.lowest`. None if no way was found to make the busiest host less busy.
        """
        enough = 0.0

        def search(barred: Barred) -> Numbers | None:
            nonlocal enough
            low = self._low(least, barred)
            enough = enough or (low if low == least else low * (1 + near))
            return self._fewest(self._most(max(low, enough)), self._idle, barred)

        hosts = self._getting_there(search)
        if hosts is None:
            return None
        changed = np.flatnonzero(hosts != self.board.host)
        return Found((tuple((int(unit), int(hosts[unit])) for unit in changed),), self._at(hosts))

    def fewest(self, most: Figures, least: Figures) -> Numbers | None:
        """The hosts of all units after the fewest moves. most, least: how busy each host may and must be."""
        return self._getting_there(lambda barred: self._fewest(most, least, barred))

    def _getting_there(self, search: Callable[[Barred], Numbers | None]) -> Numbers | None:
        """The least busy placement to which all can get, of equal ones that of the fewest moves."""
        found: list[Numbers] = []
        allowed = self.board.given.allowed
        first = np.zeros((len(self.costs), len(self.board.free)), np.bool_) if allowed is None else ~allowed
        waiting = [first]
        for _ in range(_SEARCHES):
            if not waiting:
                break
            barred = waiting.pop(0)
            hosts = search(barred)
            if hosts is None:
                continue
            late = self.stuck(hosts)
            if not late:
                found.append(hosts)
                if barred is first:
                    break
            for unit in late:
                waiting.append(barred.copy())
                waiting[-1][unit, hosts[unit]] = True
        return min(found, key=self._rank, default=None)

    def _rank(self, hosts: Numbers) -> tuple[float, int]:
        moved = self.costs[hosts != self.board.host].sum()
        return round(self._at(hosts).busiest / self.board.level, 3), int(moved)

    def _low(self, least: float, barred: Barred) -> float:
        """`least` if all hosts can be that little busy, else the lowest that can be reached."""
        moves = len(self.costs)
        if self._within(self._most(least), self._idle, moves, barred) is not None:
            return least
        low, high = max(least, self.board.floor * (1 - _CLOSE)), self.board.busiest
        while high > low * (1 + _CLOSE):
            middle = (low + high) / 2
            hosts = self._within(self._most(middle), self._idle, moves, barred)
            if hosts is None:
                low = middle
            else:
                high = self._at(hosts).busiest
        return high

    @property
    def _idle(self) -> Figures:
        return np.zeros(len(self.board.free))

    def _most(self, limit: float) -> Figures:
        """Hosts that are closed may be as busy as they are."""
        return np.where(self.board.closed, self.board.busy, limit)

    def _at(self, hosts: Numbers) -> PlacementBoard:
        board = PlacementBoard(self.board.given, hosts)
        board.closed = self.board.closed
        return board

    def _fewest(self, most: Figures, least: Figures, barred: Barred) -> Numbers | None:
        moves = range(int(self.costs.sum()) + 1)
        found = (self._within(most, least, number, barred) for number in moves)
        return next((hosts for hosts in found if hosts is not None), None)

    @cached_property
    def _order(self) -> Numbers:
        return np.argsort(-self.board.given.weights, kind="stable")

    @cached_property
    def _groups(self) -> Numbers:
        """A number for the group of each unit; NOWHERE if it is in none."""
        names = [members.tobytes() for members in self.board.given.group]
        numbers = {name: number for number, name in enumerate(filter(None, dict.fromkeys(names)))}
        return np.array([numbers.get(name, NOWHERE) for name in names], np.int64)

    def _within(self, most: Figures, least: Figures, moves: int, barred: Barred) -> Numbers | None:
        """Hosts for all units within the limits, after at most `moves` moves."""
        from sluice.placement.kernels import branch

        given, order = self.board.given, self._order
        found = branch(
            given.weights[order],
            given.slots[order],
            self.board.host[order],
            np.where(self.movable, self.costs, moves + 1)[order],
            self._groups[order],
            barred[order],
            np.floor(most * given.speeds * (1 + _ROUNDING)).astype(np.int64),
            np.ceil(least * given.speeds * (1 - _ROUNDING)).astype(np.int64),
            given.room,
            moves,
            _BRANCHES,
        )
        if NOWHERE in found:
            return None
        hosts = np.empty_like(found)
        hosts[order] = found
        return hosts
