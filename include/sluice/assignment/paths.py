"""Moves that make a busy member less busy, and nobody else as busy as it was.

A *path* is a list of moves that only make sense together: a partition goes from the busy member to a second
one, which may pass one of its own on to a third, and so on; a path that ends where it began is a swap. The
shortest path comes first, because every move makes a partition stand still.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import NamedTuple

from sluice.assignment.board import NOBODY, AssignmentBoard, Held


class PartitionMove(NamedTuple):
    """A partition and its next owner, both as numbers."""

    partition: int
    to: int


class Need(NamedTuple):
    """What a path must do.

    gain: how much less busy than the giver is now all members of the path must become. idler_than: the member
    that gets most out of it must be less busy than this; infinite if the giver itself is too busy.
    """

    gain: float
    idler_than: float


Path = list[PartitionMove]


def direct(board: AssignmentBoard, giver: int, need: Need) -> Path:
    """The one move after which giver and taker are least busy; empty if no move gains enough."""
    best: Path = []
    least = board.busy(giver) - need.gain
    for kind, held in enumerate(board.held[giver]):
        taker = board.least_busy(kind, held[0][0], but=giver) if held else NOBODY
        if taker == NOBODY or board.busy(taker) >= need.idler_than:
            continue
        for weight, partition in _around(held, _even(board, giver, taker)):
            busy = max(board.busy(giver, -weight), board.busy(taker, weight))
            if busy <= least and (not best or busy < least):
                best, least = [PartitionMove(partition, taker)], busy
    return best


def swap(board: AssignmentBoard, giver: int, need: Need) -> Path:
    """The one swap after which both members are least busy; empty if no swap gains enough."""
    best: Path = []
    least = board.busy(giver) - need.gain
    for taker in board.members:
        if taker == giver or board.busy(taker) >= min(least, need.idler_than):
            continue
        even = _even(board, giver, taker)
        given = _passable(board, giver, taker)
        for back in _passable(board, taker, giver):
            for weight, partition in _around(given, even + back[0]):
                more = weight - back[0]
                busy = max(board.busy(giver, -more), board.busy(taker, more))
                if busy <= least and (not best or busy < least):
                    best, least = [PartitionMove(partition, taker), PartitionMove(back[1], giver)], busy
    return best


def chain(board: AssignmentBoard, giver: int, need: Need) -> tuple[Path, set[int]]:
    """The shortest path from the giver to a member that is less busy, and the members that were reached.

    Each member on the way passes on its lightest partition that makes room for what it got. Where all weights
    are equal, a path is found if there is one.
    """
    limit = board.busy(giver) - need.gain
    left = set(board.members) - {giver}
    ways: deque[tuple[int, int, Path]] = deque([(giver, 0, [])])
    while ways and left:
        member, brought, path = ways.popleft()
        # What the member passes on must bring it below the limit, or be as much as it got.
        enough = board.load[member] + brought - limit * board.speeds[member]
        enough = min(enough, brought) if brought else enough
        for kind, held in enumerate(board.held[member]):
            place = bisect_left(held, (enough, NOBODY))
            if place == len(held):
                continue
            weight, partition = held[place]
            for taker in sorted(board.takes[kind] & left):
                longer = [*path, PartitionMove(partition, taker)]
                if board.busy(taker, weight) <= limit and board.busy(taker) < need.idler_than:
                    return longer, set()
                left.remove(taker)
                ways.append((taker, weight, longer))
    return [], set(board.members) - left


def _even(board: AssignmentBoard, giver: int, taker: int) -> float:
    """The weight that would make both equally busy."""
    fast, slow = board.speeds[giver], board.speeds[taker]
    return (board.load[giver] * slow - board.load[taker] * fast) / (fast + slow)


def _around(held: Held, weight: float) -> Held:
    """The heaviest partition that is no heavier, and the lightest that is heavier."""
    place = bisect_right(held, (weight, float("inf")))
    return held[max(0, place - 1) : place + 1]


def _passable(board: AssignmentBoard, giver: int, taker: int) -> Held:
    """What the giver holds and the taker may take, lightest first."""
    return sorted(
        each for kind, held in enumerate(board.held[giver]) if taker in board.takes[kind] for each in held
    )
