"""Clusters that are too large for integer programs, exactly: branch and bound in machine code.

Units get their hosts one after the other, the heaviest first, and first the host that they have. A branch
ends where a host is too busy, where what is left does not fit or does not fill hosts that are too idle, and
where too many have moved. A search that would be too long ends without an answer. It is not asked in which
order units could move.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sluice.placement.base import Cluster, Placed
from sluice.placement.board import NOWHERE, Figures, Numbers, PlacementBoard, PlacementInput

#: Branches that one search looks at, and how close to the least busiest host a search comes.
_BRANCHES, _CLOSE = 1_000_000, 0.002
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ExactSearch:
    """Searches from where the units of a board are; each of them has a host, and may get any other."""

    board: PlacementBoard

    @classmethod
    def of(cls, cluster: Cluster, placed: Placed) -> ExactSearch:
        """From this placement of all units."""
        numbers = {host.name: number for number, host in enumerate(cluster.hosts)}
        hosts = np.array([numbers[placed[unit.name]] for unit in cluster.units], np.int64)
        return cls(PlacementBoard(PlacementInput.of(cluster), hosts))

    def lowest(self) -> float:
        """The least load over speed of the busiest host, over the mean, to within 0.2 %.

        It is that of a placement, and not the least if a search was too long: begin from a good placement.
        """
        board, moves = self.board, len(self.board.host)
        idle = np.zeros(len(board.free))
        low, high = board.floor * (1 - _CLOSE), board.busiest
        while high > low * (1 + _CLOSE):
            middle = (low + high) / 2
            hosts = self._within(np.full(len(board.free), middle), idle, moves)
            if hosts is None:
                low = middle
            else:
                high = PlacementBoard(board.given, hosts).busiest
        return high / board.level

    def fewest(self, most: Figures, least: Figures) -> Numbers | None:
        """The hosts of all units after the fewest moves. None without an answer.

        most, least: load over speed that each host may and must have, over the mean.
        """
        level = self.board.level
        found = (
            self._within(most * level, least * level, moves) for moves in range(len(self.board.host) + 1)
        )
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

    def _within(self, most: Figures, least: Figures, moves: int) -> Numbers | None:
        """Hosts for all units within the limits, after at most `moves` moves."""
        from sluice_lab.placement.kernels import branch

        given, order = self.board.given, self._order
        found = branch(
            given.weights[order],
            given.slots[order],
            self.board.host[order],
            self._groups[order],
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
