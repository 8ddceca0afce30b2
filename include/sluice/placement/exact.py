"""Small clusters, exactly: the fewest moves to the least busy hosts, by branch and bound.

Units get their hosts one after the other, the heaviest first, and first the host that they have. A branch
ends where a host is too busy, where what is left does not fit or does not fill hosts that are too idle, and
where too many have moved. A search that would be too long has no answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sluice.placement.board import NOWHERE, Board, Figures, Numbers
from sluice.placement.search import Found

#: Clusters of more units are not small.
UNITS = 20
#: Branches that one search looks at, and how close to the least busiest host a search comes.
_BRANCHES, _CLOSE = 400_000, 0.002
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Exact:
    """Searches from where the units of a board are; each of them has a host.

    costs: of each unit, 1 if it counts as a move to give it another host, else 0. movable: the others stay.
    """

    board: Board
    costs: Numbers
    movable: NDArray[np.bool_]

    def lowest(self, least: float, near: float) -> Found | None:
        """The fewest moves to a busiest host of `least`; if that is too low, to within `near` of the lowest.

        As `search.lowest`. None if no way was found to make the busiest host less busy.
        """
        low, high = self.board.floor * (1 - _CLOSE), self.board.busiest
        if self._hosts(least) is not None:
            return self._found(self.fewest(self._most(least), self._none))
        while high > max(low, least) * (1 + _CLOSE):
            middle = (low + high) / 2
            hosts = self._hosts(middle)
            if hosts is None:
                low = middle
            else:
                high = self._at(hosts).busiest
        return self._found(self.fewest(self._most(high * (1 + near)), self._none))

    def fewest(self, most: Figures, least: Figures) -> Numbers | None:
        """The hosts of all units after the fewest moves. most, least: how busy each host may and must be."""
        found = (self._within(most, least, moves) for moves in range(int(self.costs.sum()) + 1))
        return next((hosts for hosts in found if hosts is not None), None)

    @property
    def _none(self) -> Figures:
        return np.zeros(len(self.board.free))

    def _most(self, limit: float) -> Figures:
        """Hosts that are closed may be as busy as they are."""
        return np.where(self.board.closed, self.board.busy, limit)

    def _hosts(self, limit: float) -> Numbers | None:
        return self._within(self._most(limit), self._none, len(self.costs))

    def _at(self, hosts: Numbers) -> Board:
        board = Board(self.board.given, hosts)
        board.closed = self.board.closed
        return board

    def _found(self, hosts: Numbers | None) -> Found | None:
        if hosts is None:
            return None
        changed = np.flatnonzero(hosts != self.board.host)
        return Found((tuple((int(unit), int(hosts[unit])) for unit in changed),), self._at(hosts))

    def _within(self, most: Figures, least: Figures, moves: int) -> Numbers | None:
        """Hosts for all units within the limits, after at most so many moves."""
        from sluice.placement.branches import branch

        given = self.board.given
        order = np.argsort(-given.weights, kind="stable")
        names = [members.tobytes() for members in given.group]
        numbers = {name: number for number, name in enumerate(filter(None, dict.fromkeys(names)))}
        found = branch(
            given.weights[order],
            given.slots[order],
            self.board.host[order],
            np.where(self.movable, self.costs, moves + 1)[order],
            np.array([numbers.get(name, NOWHERE) for name in names], np.int64)[order],
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
