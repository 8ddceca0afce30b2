"""The order of moves: what may happen at the same time.

A unit that moves runs on both hosts for a moment, so it needs slots on the target while it still holds those
of the source. And while one unit of a group moves, no other of the group moves or starts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.placement.base import Cluster, Move, Plan, Unit, Unplaced
from sluice.placement.usage import slots_used


def ordered(
    cluster: Cluster, wanted: Sequence[Move], unplaced: Sequence[Unplaced], budget: int | None
) -> Plan:
    """A plan of as many of the wanted moves as the budget allows, each as early as it can happen.

    wanted: starts (no source) and moves, in their order of importance. What never finds room, because a move
    that it needs is beyond the budget, waits; a start that waits is among the unplaced.
    """
    moves = [move for move in wanted if move.source is not None]
    within = moves if budget is None else moves[:budget]
    allowed = {move.unit for move in within}
    pending = [move for move in wanted if move.source is None or move.unit in allowed]
    units = {unit.name: unit for unit in cluster.units}
    placed = cluster.running()
    found: list[tuple[Move, ...]] = []
    while pending:
        step = _Step(cluster, units, placed)
        rest = [move for move in pending if not step.take(move)]
        if not step.moves:
            break
        placed |= {move.unit: move.target for move in step.moves}
        found.append(tuple(step.moves))
        pending = rest
    stuck = [
        Unplaced(move.unit, f"its place on {move.target} is not free yet: plan again when the rest has moved")
        for move in pending
        if move.source is None
    ]
    done = sum(move.source is not None for step in found for move in step)
    return Plan(tuple(found), (*unplaced, *stuck), len(moves) - done)


class _Step:
    """Moves that may happen at the same time, from where units are now."""

    def __init__(self, cluster: Cluster, units: dict[str, Unit], placed: dict[str, str]) -> None:
        self.moves: list[Move] = []
        self._units = units
        used = slots_used(cluster, placed)
        self._free = {host.name: host.slots - used[host.name] for host in cluster.hosts}
        self._groups = {
            (host, units[name].group) for name, host in placed.items() if units[name].group is not None
        }
        self._moving: dict[str, bool] = {}  # by group: whether a running unit moves

    def take(self, move: Move) -> bool:
        """Add the move, if it may happen in this step."""
        unit, runs = self._units[move.unit], move.source is not None
        if self._free[move.target] < unit.slots or (move.target, unit.group) in self._groups:
            return False
        if unit.group is not None:
            if unit.group in self._moving and (runs or self._moving[unit.group]):
                return False
            self._moving[unit.group] = runs
            self._groups.add((move.target, unit.group))
        self._free[move.target] -= unit.slots
        self.moves.append(move)
        return True
