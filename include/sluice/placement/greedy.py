"""The best step, and again: hosts for units that have none, then moves and swaps of the busiest host.

Whatever makes the busiest host less busy takes one of its units away. So each step moves a unit of the
busiest host, or swaps it with a lighter one of another host, where no move lowers the load that is too much.
The best step leaves the least load above the limit in all, and of equal ones the most even loads. No step
makes a host as busy as the busiest was, and a unit moves once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.placement.board import NOWHERE, Numbers, PlacementBoard

#: Swaps tested for room, the best first.
_LOOKS = 64

#: One move or a swap: the new host of each unit, in an order in which each finds room.
Action = tuple[tuple[int, int], ...]


class _Try(NamedTuple):
    """An action, and what it would leave: the load above the limit in all, and how uneven loads are."""

    above: float
    uneven: float
    action: Action


def placed(board: PlacementBoard, units: Sequence[int]) -> PlacementBoard:
    """The board with hosts for these units, in their order; one that fits nowhere stays without.

    A unit goes where it leaves the busiest host and then the loads most even. Of equal hosts it takes the one
    with fewest units of its application, then the one with the lowest slot usage.
    """
    board, given = board.copy(), board.given
    for unit in units:
        targets = np.flatnonzero(board.may(unit))
        if not len(targets):
            continue
        load = board.load[targets].astype(np.float64)
        after = load + given.weights[unit]
        busiest = np.maximum(board.busiest, after / given.speeds[targets]) / given.level
        uneven = (after**2 - load**2) / given.speeds[targets] / (given.level**2 * given.speeds.sum())
        best = np.lexsort(
            (
                targets,
                1 - board.free[targets] / given.room[targets],
                board.alike(unit)[targets],
                np.round(uneven, 6),
                np.round(np.maximum(busiest, 1.0), 3),
            )
        )[0]
        board.give(unit, int(targets[best]))
    return board


def lowered(board: PlacementBoard, movable: NDArray[np.bool_], limit: float, near: float) -> list[Action]:
    """Steps to a busiest host of at most `limit`; if they do not get there, as low as they get.

    movable: the units that may move. near: 0.02 leaves out the last steps, if the busiest host is then at
    most 2 % busier.
    """
    board, movable = board.copy(), movable.copy()
    actions: list[Action] = []
    busiest = [board.busiest]
    while busiest[-1] > limit and (action := _best(board, movable, limit)):
        for unit, host in action:
            board.give(unit, host)
            movable[unit] = False
        actions.append(action)
        busiest.append(board.busiest)
    enough = max(limit, busiest[-1] * (1 + near))
    return actions[: next(n for n, each in enumerate(busiest) if each <= enough)]


def _best(board: PlacementBoard, movable: NDArray[np.bool_], limit: float) -> Action | None:
    source = _Source(board, movable, limit)
    move = source.move()
    if move is not None and move.above < source.above:
        return move.action
    tries = [each for each in (move, source.swap()) if each is not None]
    return min(tries).action if tries else None


class _Source:
    """The busiest host, and what its units could do.

    above: the load above the limit in all, rounded: less than a unit of weight is no difference.
    """

    def __init__(self, board: PlacementBoard, movable: NDArray[np.bool_], limit: float) -> None:
        self._board, self._given, self._movable = board, board.given, movable
        self._host = int(board.open_busy.argmax())
        self._units = np.flatnonzero((board.host == self._host) & movable)
        self._limits = limit * board.given.speeds
        self._over = np.where(board.closed, 0.0, np.maximum(board.load - self._limits, 0.0))
        self._squares = board.load.astype(np.float64) ** 2 / board.given.speeds
        self.above = float(self._over.sum().round())

    def move(self) -> _Try | None:
        """The best move. Of equal ones it goes where fewest units of the application are."""
        board, units = self._board, self._units
        if not len(units):
            return None
        hosts = np.broadcast_to(np.arange(len(board.free)), (len(units), len(board.free)))
        good, above, uneven = self._after(self._given.weights[units][:, None], hosts)
        good &= np.array([board.may(int(unit)) for unit in units])
        if not good.any():
            return None
        least = np.where(good, above, np.inf).min()
        good &= above == least
        even = np.where(good, uneven, np.inf).min()
        best = [(int(units[n]), int(host)) for n, host in np.argwhere(good & (uneven == even))]
        return _Try(float(least), float(even), (min(best, key=lambda at: (board.alike(at[0])[at[1]], at)),))

    def swap(self) -> _Try | None:
        """The best swap of a unit with a lighter one of another host."""
        board, weights = self._board, self._given.weights
        others = np.flatnonzero(self._movable & (board.host != self._host) & (board.host != NOWHERE))
        shifted = weights[self._units][:, None] - weights[others]
        hosts = np.broadcast_to(board.host[others], shifted.shape)
        good, above, uneven = self._after(shifted, hosts)
        at = np.argwhere(good & (shifted > 0) & ~board.closed[hosts])
        above, uneven = above[*at.T], uneven[*at.T]
        for n in np.lexsort((uneven, above))[:_LOOKS]:
            unit, other = int(self._units[at[n, 0]]), int(others[at[n, 1]])
            action = _in_order(board, ((unit, int(board.host[other])), (other, self._host)))
            if action is not None:
                return _Try(float(above[n]), float(uneven[n]), action)
        return None

    def _after(
        self, shifted: Numbers, targets: Numbers
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
        """Whether each target is less busy than the source was when it has got this weight, and what is left:
        the load above the limit in all, and how uneven loads are."""
        speeds, load, host = self._given.speeds, self._board.load, self._host
        left, there = (load[host] - shifted).astype(np.float64), (load[targets] + shifted).astype(np.float64)
        over = self._over.sum() - self._over[host] - self._over[targets]
        over = over + np.maximum(left - self._limits[host], 0) + np.maximum(there - self._limits[targets], 0)
        uneven = self._squares.sum() - self._squares[host] - self._squares[targets]
        uneven = uneven + left**2 / speeds[host] + there**2 / speeds[targets]
        return there / speeds[targets] < load[host] / speeds[host], np.round(over), uneven


def _in_order(board: PlacementBoard, action: Action) -> Action | None:
    """The same moves in an order in which each finds room, if there is one.

    A unit that moves runs on both hosts for a moment.
    """
    for ordered in itertools.permutations(action):
        after = board.copy()
        for unit, host in ordered:
            if not after.may(unit)[host]:
                break
            after.give(unit, host)
        else:
            return ordered
    return None
