"""A plan after which another plan moves nothing.

One plan goes by its busiest hosts, and moves each unit once. Of two ways with the same number of moves it may
have filled one new host and left the other empty. The next plan would move the same unit on. So plans are
made until nothing moves, each from where the one before ends, and every unit then goes where it belongs at
once.
"""

from __future__ import annotations

from dataclasses import replace

from sluice.placement.base import Cluster, Move, Plan
from sluice.placement.plan import DEFAULT, Policy, plan
from sluice.placement.steps import ordered

#: Plans that are made at most; two are usual.
_PLANS = 5


def within(cluster: Cluster, budget: int) -> Plan:
    """What should start, and at most `budget` moves of running units. Raises ClusterRefused.

    A unit that has to start does not wait for the place of another that the budget keeps from moving.
    """
    found = settled(cluster, Policy(budget=budget))
    if not found.waiting:
        return found
    running = cluster.running()
    stays = tuple(replace(unit, fixed=unit.fixed or unit.name in running) for unit in cluster.units)
    starts = settled(replace(cluster, units=stays))
    if budget and len(found.unplaced) <= len(starts.unplaced):
        return found
    return replace(starts, waiting=found.waiting + len(found.moves))


def settled(cluster: Cluster, policy: Policy = DEFAULT) -> Plan:
    """What should start and move, all in all. Raises ClusterRefused."""
    free = replace(policy, budget=None)
    first = found = plan(cluster, free)
    after, why = found.result(cluster), {move.unit: move for step in found.steps for move in step}
    for _ in range(_PLANS - 1):
        if not found.moves or first.unplaced:
            break
        found = plan(cluster.having(after), free)
        after |= found.result(cluster.having(after))
        for move in found.moves:
            why.setdefault(move.unit, move)
    running = cluster.running()
    wanted = [
        Move(unit, running.get(unit), after[unit], move.why)
        for unit, move in why.items()
        if after[unit] != running.get(unit)
    ]
    return ordered(cluster, wanted, first.unplaced, policy.budget)
