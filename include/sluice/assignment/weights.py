"""Loads and speeds as numbers that can be compared: none is missing, none is absurd.

Weights are whole numbers. Sums of them do not depend on the order of adding, so the same group always gets
the same assignment.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from sluice.assignment.base import AssignedPartition, Group, PartitionLoad

MEAN = 1 << 20  # the mean partition's weight
#: Bytes that wait count as a rate: the rate that works them off in this time.
CATCH_UP_SECONDS = 60.0
#: Every partition costs its owner something, an idle one too (a place in each fetch, an open file): this part
#: of the mean. So idle partitions are spread by number.
OVERHEAD = 0.02
#: No member counts as slower than this part of the median: one that hung for a moment recovers.
SLOWEST = 0.05


class AssignmentWeights(NamedTuple):
    """What an assignment balances.

    partitions: a weight for each, at least 1. members: a speed for each, 1.0 is the median. known: whether
    anything was measured; if not, all weights and all speeds are equal.
    """

    partitions: list[int]
    members: list[float]
    known: bool


def weigh(group: Group, partitions: Sequence[AssignedPartition]) -> AssignmentWeights:
    """The weights of these partitions and the speeds of the group's members, in the order of each.

    A load that is not known counts as the mean of those known, a speed as their median.
    """
    loads = [_rate(group.loads[each]) if each in group.loads else None for each in partitions]
    measured = [load for load in loads if load is not None]
    mean = sum(measured) / len(measured) if measured else 0.0
    if mean <= 0:
        weights = [MEAN] * len(partitions)
    else:
        weights = [
            round(MEAN * ((1 - OVERHEAD) * (mean if load is None else load) / mean + OVERHEAD))
            for load in loads
        ]
    seen = [member.speed for member in group.members if member.speed is not None and member.speed >= 0]
    middle = median(seen) if seen else 0.0
    if middle <= 0:
        return AssignmentWeights(weights, [1.0] * len(group.members), mean > 0)
    speeds = [
        1.0 if member.speed is None else max(member.speed / middle, SLOWEST) for member in group.members
    ]
    return AssignmentWeights(weights, speeds, True)


def _rate(load: PartitionLoad) -> float:
    return max(load.rate, 0.0) + max(load.lag, 0.0) / CATCH_UP_SECONDS
