"""Load-aware cooperative sticky assignment across topics.

1. A partition stays with its owner, if that lives and still subscribes.
2. Partitions without an owner go to the member that is least busy with them: the heaviest first, then those
   that fewest members may have. They have to move anyway, so they also even out what was uneven before.
3. A partition moves between living members only if there is need: one member is busier than the mean by more
   than the tolerance, or one is idler. And only if the move pays: it gains more than a tenth of a mean
   partition.

Busy is load over speed. Where nothing was measured, every partition counts as one and there is no tolerance;
the result is then as even by number as subscriptions allow.
"""

from __future__ import annotations

from sluice.assignment.base import Assignment, Group
from sluice.assignment.board import NOBODY, AssignmentBoard
from sluice.assignment.paths import Need, Path, chain, direct, swap
from sluice.assignment.weights import weigh

#: How far a member may be from the mean before partitions move between living members. Smoothed rates of
#: equal partitions differ by less.
TOLERANCE = 0.10
#: A path of moves must gain this part of the mean partition, for each move.
PAYS = 0.10
#: Equal weights: gains are whole partitions, so anything between none and one will do.
_SOME = 0.01


def assign(group: Group, *, tolerance: float = TOLERANCE) -> Assignment:
    """The partitions of each member. The same group gives the same assignment, in whatever order it comes."""
    members = tuple(sorted(group.members, key=lambda member: member.id))
    group = Group(members, group.partitions, group.loads)
    partitions = group.all_partitions()
    result: Assignment = {member.id: [] for member in members}
    if not partitions:
        return result
    board = AssignmentBoard(group, partitions, weigh(group, partitions))
    numbers = {member.id: number for number, member in enumerate(members)}
    owners = group.owners()
    for number, partition in enumerate(partitions):
        if partition in owners:
            board.give(number, numbers[owners[partition]])
    _place(board)
    _even_out(board, tolerance if board.known else 0.0)
    for number, owner in enumerate(board.owner):
        result[members[owner].id].append(partitions[number])
    return result


def _place(board: AssignmentBoard) -> None:
    """Give every partition without an owner to somebody."""
    orphans = [number for number, owner in enumerate(board.owner) if owner == NOBODY]
    orphans.sort(key=lambda n: (-board.weights[n], len(board.takers[board.kind[n]]), n))
    for number in orphans:
        board.give(number, board.least_busy(board.kind[number], board.weights[number]))


def _even_out(board: AssignmentBoard, tolerance: float) -> None:
    """Move partitions between members until nobody needs it, or nothing pays.

    A member that could not be helped is not tried again before all others are done. The last round moves
    nothing, so the same group with this assignment would keep it.
    """
    moved = True
    while moved:
        moved, hopeless = False, set[int]()
        while path := _path(board, tolerance, hopeless):
            moved = True
            for move in path:
                board.give(move.partition, move.to)


def _path(board: AssignmentBoard, tolerance: float, hopeless: set[int]) -> Path:
    """The next moves, from the busiest member that can be helped; empty if there is none.

    A member that nothing can help, such as one whose only partition is the busiest of all, is left out of the
    mean that the others are compared with, and added to `hopeless`.
    """
    order = sorted(board.members, key=lambda member: (-board.busy(member), member))
    idlest = board.busy(order[-1])
    for place, giver in enumerate(order):
        level = board.level(order[place:])
        too_busy = board.busy(giver) > level * (1 + tolerance)
        need = Need(
            gain=(PAYS if board.known else _SOME) * board.mean / board.speeds[giver],
            idler_than=float("inf") if too_busy else level * (1 - tolerance),
        )
        if idlest >= min(board.busy(giver), need.idler_than):
            break
        if giver in hopeless:
            continue
        path, reached = _help(board, giver, need)
        if path:
            return path
        # Where weights are equal, what fails for a member fails for all that it could have reached.
        hopeless |= {giver} if board.known else reached
    return []


def _help(board: AssignmentBoard, giver: int, need: Need) -> tuple[Path, set[int]]:
    """The shortest path that helps the giver, and the members that a chain reached if there is none."""
    if path := direct(board, giver, need):
        return path, set()
    if board.known and (path := swap(board, giver, Need(2 * need.gain, need.idler_than))):
        return path, set()
    return chain(board, giver, need)
