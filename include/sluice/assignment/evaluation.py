"""What an assignment is worth: how even it is, and what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sluice.assignment.base import AssignedPartition, Assignment


def counts(assignment: Assignment) -> list[int]:
    """How many partitions each member has, in the members' order."""
    return [len(assignment[member]) for member in sorted(assignment)]


def unevenness(loads: Mapping[str, float], speeds: Mapping[str, float] | None = None) -> float:
    """max / mean - 1 of what the members have, 0 if they have nothing.

    speeds: by member; then what counts is the load over the speed, and the mean is what all would have if all
    were equally busy.
    """
    speeds = speeds or dict.fromkeys(loads, 1.0)
    total = sum(loads.values())
    if total <= 0:
        return 0.0
    level = total / sum(speeds[member] for member in loads)
    return max(load / speeds[member] for member, load in loads.items()) / level - 1


def by_number(assignment: Assignment) -> float:
    """The unevenness of the numbers of partitions."""
    return unevenness({member: float(len(held)) for member, held in assignment.items()})


def by_load(
    assignment: Assignment,
    loads: Mapping[AssignedPartition, float],
    speeds: Mapping[str, float] | None = None,
) -> float:
    """The unevenness of the loads. loads: of every partition."""
    return unevenness(
        {member: sum(loads[each] for each in held) for member, held in assignment.items()}, speeds
    )


class Moves(NamedTuple):
    """Partitions that have another owner than before.

    all: with those that had an owner before, living or not. living: both owners are members now.
    """

    all: int
    living: int


def moves(before: Mapping[str, list[AssignedPartition]], after: Assignment) -> Moves:
    """What has to move. before: the former assignment, with members that have left since."""
    owners = {partition: member for member, held in before.items() for partition in held}
    moved = [
        owners[partition]
        for member, held in after.items()
        for partition in held
        if owners.get(partition, member) != member
    ]
    return Moves(len(moved), sum(member in after for member in moved))
