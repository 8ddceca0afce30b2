"""The fewest moves after which no host is busier than a limit: a beam search.

Whatever brings the busiest host below the limit moves one of its units away. So a search goes by the busiest
host. It tries to move one of its units, to swap one with a lighter unit of another host, and in small
clusters to exchange one for two. It prefers what leaves the least load above the limit in all, then what
leaves the loads most even. Of the placements with the same number of moves it follows the best few. No action
makes a host as busy as the busiest was. A unit moves once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.placement.board import NOWHERE, Numbers, PlacementBoard

#: Placements that a search follows: in small clusters, and at least.
WIDEST, NARROWEST = 16, 1
_SIZE = 4_000
#: A search ends after _PATIENCE moves in a row that did not lower the load above the limit.
_PATIENCE = 4
#: Exchanges tested for room, per exchange that the search follows.
_LOOKS = 4
#: From this width on, clusters are small enough for exchanges of three units.
_SMALL = 16
#: Limits that are closer than this are equal.
_CLOSE = 0.005
_ROUNDS = 6

#: One move or a swap: the new host of each unit.
Action = tuple[tuple[int, int], ...]


class _Try(NamedTuple):
    """An action, and what it would leave: the load above the limit in all, and how uneven loads are."""

    above: float
    uneven: float
    action: Action


@dataclass(frozen=True)
class Found:
    """Actions in order, and the placement after them."""

    actions: tuple[Action, ...]
    board: PlacementBoard

    @property
    def moves(self) -> int:
        return sum(map(len, self.actions))

    @property
    def rank(self) -> tuple[float, int, tuple[Action, ...]]:
        return self.board.busiest, self.moves, self.actions

    def then(self, action: Action) -> Found:
        board = self.board.copy()
        for unit, host in action:
            board.give(unit, host)
        return Found((*self.actions, action), board)


def width(board: PlacementBoard) -> int:
    """How many placements a search follows: fewer in larger clusters."""
    return int(np.clip(_SIZE // (len(board.host) + len(board.free)), NARROWEST, WIDEST))


class _Placing(NamedTuple):
    """A placement of some units. pairs: units of one application on one host, counted in pairs."""

    board: PlacementBoard
    pairs: int


class _Place(NamedTuple):
    """A unit on a host: what it would leave, in the order of what matters; `of` is the place in the beam."""

    busiest: float
    uneven: float
    pairs: int
    usage: float
    of: int
    host: int


def placed(board: PlacementBoard, units: Sequence[int]) -> PlacementBoard:
    """The board with hosts for these units, in their order; one that fits nowhere stays without.

    It follows the placements that leave the busiest host and then the loads most even. Of equal ones it
    prefers those that spread applications, then the host with the lowest slot usage.
    """
    beam = [_Placing(board, 0)]
    for unit in units:
        tries = [place for number, each in enumerate(beam) for place in _places(each, number, unit)]
        if tries:
            beam = _distinct(beam, unit, sorted(tries), width(board))
    return min(beam, key=lambda each: (each.board.busiest, each.pairs)).board


def _places(each: _Placing, number: int, unit: int) -> list[_Place]:
    """The best hosts for the unit."""
    board, given = each.board, each.board.given
    targets = np.flatnonzero(board.may(unit))
    after = (board.load[targets] + given.weights[unit]).astype(np.float64)
    busiest = np.maximum(board.busiest, after / given.speeds[targets]) / given.level
    squares = board.load.astype(np.float64) ** 2 / given.speeds
    rough = squares.sum() - squares[targets] + after**2 / given.speeds[targets]
    ranks = (
        np.round(np.maximum(busiest, 1.0), 3),
        np.round(rough / (given.level**2 * given.speeds.sum()), 6),
        each.pairs + board.alike(unit)[targets],
        1 - board.free[targets] / given.room[targets],
    )
    order = np.lexsort((targets, *reversed(ranks)))[: width(board)]
    busy, uneven, pairs, usage = (rank.tolist() for rank in ranks)
    return [_Place(busy[n], uneven[n], pairs[n], usage[n], number, int(targets[n])) for n in order]


def _distinct(beam: list[_Placing], unit: int, tries: list[_Place], wide: int) -> list[_Placing]:
    """The placements after the best tries, one for each distribution of loads and slots."""
    found: dict[bytes, _Placing] = {}
    for place in tries:
        after = beam[place.of].board.copy()
        after.give(unit, place.host)
        found.setdefault(after.load.tobytes() + after.free.tobytes(), _Placing(after, place.pairs))
        if len(found) == wide:
            break
    return list(found.values())


def lowest(board: PlacementBoard, movable: NDArray[np.bool_], least: float, near: float) -> Found:
    """The fewest moves to a busiest host of `least`; where none is found, to within `near` of the lowest.

    movable: the units that may move. near: 0.03 accepts 3 % more than the lowest that was found.
    """
    best = limited(board, movable, least)
    if best.board.busiest <= least:
        return best
    low = least
    for _ in range(_ROUNDS if width(board) >= _SMALL else 0):
        high = best.board.busiest
        if high <= low * (1 + _CLOSE):
            break
        middle = (low + high) / 2
        found = limited(board, movable, middle)
        if found.board.busiest > middle:
            low = middle
        best = min(best, found, key=lambda each: each.rank)
    enough = best.board.busiest * (1 + near)
    again = limited(board, movable, enough)
    return again if again.board.busiest <= enough else best


def limited(board: PlacementBoard, movable: NDArray[np.bool_], limit: float) -> Found:
    """The fewest moves to a busiest host of at most `limit`; else those to the lowest that was seen."""
    best = Found((), board)
    wide = width(board)
    # By the number of moves: the placements that a search follows, with the tries that led there.
    beams: dict[int, list[tuple[_Try, Found]]] = {}
    current = [best]
    moves = progress = 0
    above = board.above(limit)
    while best.board.busiest > limit:
        for start in current:
            for each in _tries(start, movable, limit):
                beams.setdefault(moves + len(each.action), []).append((each, start))
        if not beams:
            break
        moves = min(beams)
        current = list(_best(beams.pop(moves), wide))
        best = min(best, *current, key=lambda found: found.rank)
        lowest_above = min(found.board.above(limit) for found in current)
        if lowest_above < above:
            above, progress = lowest_above, moves
        elif moves - progress >= _PATIENCE:
            break
    return best


def _best(tries: list[tuple[_Try, Found]], wide: int) -> Iterator[Found]:
    """The placements after the best tries, each once."""
    seen = set[frozenset[tuple[int, int]]]()
    for each, start in sorted(tries, key=lambda pair: (pair[0], pair[1].actions)):
        moved = frozenset(move for action in (*start.actions, each.action) for move in action)
        if moved not in seen:
            seen.add(moved)
            yield start.then(each.action)
            if len(seen) == wide:
                return


class _Source:
    """The busiest host, and what its units could do."""

    def __init__(self, start: Found, movable: NDArray[np.bool_], limit: float) -> None:
        board = self.board = start.board
        self.host = int(board.open_busy.argmax())
        self.busy = board.busiest
        self.free = movable.copy()
        for action in start.actions:
            for unit, _ in action:
                self.free[unit] = False
        self.units = np.flatnonzero((board.host == self.host) & self.free)
        self.limit = limit * board.given.speeds
        self.above = np.where(board.closed, 0.0, np.maximum(board.load - self.limit, 0.0))
        self.uneven = board.load.astype(np.float64) ** 2 / board.given.speeds

    def after(self, shifted: Numbers, targets: Numbers) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Load above the limit, and unevenness, when these weights go from the source to each target."""
        board, speeds, host = self.board, self.board.given.speeds, self.host
        left, there = board.load[host] - shifted, board.load[targets] + shifted
        above = self.above.sum() - self.above[host] - self.above[targets]
        above = above + np.maximum(left - self.limit[host], 0) + np.maximum(there - self.limit[targets], 0)
        uneven = self.uneven.sum() - self.uneven[host] - self.uneven[targets]
        uneven = uneven + left.astype(np.float64) ** 2 / speeds[host]
        return np.round(above), uneven + there.astype(np.float64) ** 2 / speeds[targets]

    def pays(self, shifted: Numbers, targets: Numbers) -> NDArray[np.bool_]:
        """Whether both hosts are then less busy than the source was."""
        board, speeds = self.board, self.board.given.speeds
        return (shifted > 0) & ((board.load[targets] + shifted) / speeds[targets] < self.busy)


def _tries(start: Found, movable: NDArray[np.bool_], limit: float) -> list[_Try]:
    """Moves and swaps of the busiest host's units, the best of each."""
    source = _Source(start, movable, limit)
    wide = width(start.board)
    found = [each for unit in map(int, source.units) for each in _moves(source, unit, wide)]
    if wide < _SMALL and found and min(found).above < source.above.sum().round():
        return found
    found += [each for unit in map(int, source.units) for each in _swaps(source, unit, wide)]
    return [*found, *_threes(source, wide)] if wide >= _SMALL else found


def _moves(source: _Source, unit: int, wide: int) -> Iterator[_Try]:
    board = source.board
    targets = np.flatnonzero(board.may(unit))
    shifted = np.full(len(targets), board.given.weights[unit])
    pays = source.pays(shifted, targets)
    targets, shifted = targets[pays], shifted[pays]
    above, uneven = source.after(shifted, targets)
    for n in np.lexsort((targets, board.alike(unit)[targets], uneven, above))[:wide]:
        yield _Try(float(above[n]), float(uneven[n]), ((unit, int(targets[n])),))


def _swaps(source: _Source, unit: int, wide: int) -> Iterator[_Try]:
    """Swaps of the unit with a lighter one of any other host."""
    board, given = source.board, source.board.given
    others = np.flatnonzero(source.free & (given.weights < given.weights[unit]) & (board.host != NOWHERE))
    hosts = board.host[others]
    shifted = given.weights[unit] - given.weights[others]
    good = (board.free[hosts] >= given.slots[unit]) | (board.free[source.host] >= given.slots[others])
    good &= (hosts != source.host) & ~board.closed[hosts] & source.pays(shifted, hosts)
    others, hosts, shifted = others[good], hosts[good], shifted[good]
    above, uneven = source.after(shifted, hosts)
    tries = (
        _Try(float(above[n]), float(uneven[n]), ((unit, int(hosts[n])), (int(others[n]), source.host)))
        for n in np.lexsort((others, uneven, above))[: _LOOKS * wide]
    )
    yield from itertools.islice(filter(None, (_possible(board, each) for each in tries)), wide)


def _threes(source: _Source, wide: int) -> Iterator[_Try]:
    """Exchanges of one unit for two, either way: in small clusters, where moves and swaps are few."""
    board, weights = source.board, source.board.given.weights
    found: list[_Try] = []
    here = [int(unit) for unit in source.units]
    for target in np.flatnonzero(~board.closed):
        if target == source.host:
            continue
        there = list(map(int, np.flatnonzero((board.host == target) & source.free)))
        sets = [
            *itertools.product(itertools.combinations(here, 2), ((unit,) for unit in there)),
            *itertools.product(((unit,) for unit in here), itertools.combinations(there, 2)),
        ]
        if not sets:
            continue
        shifted = np.array([weights[[*gone]].sum() - weights[[*come]].sum() for gone, come in sets])
        targets = np.full(len(sets), target)
        pays = source.pays(shifted, targets)
        above, uneven = source.after(shifted, targets)
        for n in map(int, np.flatnonzero(pays)):
            gone, come = sets[n]
            action = tuple((unit, int(target)) for unit in gone) + tuple((unit, source.host) for unit in come)
            found.append(_Try(float(above[n]), float(uneven[n]), action))
    tries = sorted(found)[: _LOOKS * wide]
    yield from itertools.islice(filter(None, (_possible(board, each) for each in tries)), wide)


def _possible(board: PlacementBoard, wanted: _Try) -> _Try | None:
    """The same with its moves in an order in which each finds room, if there is one.

    A unit that moves runs on both hosts for a moment.
    """
    for action in itertools.permutations(wanted.action):
        after = board.copy()
        for unit, host in action:
            if not after.may(unit)[host]:
                break
            after.give(unit, host)
        else:
            return wanted._replace(action=action)
    return None
