"""What a cooperative group may hand out in one round.

A partition that moves between living members is handed out twice: first to nobody, so that its owner gives it
up, then, in the round that this starts, to its new owner. All other partitions go on being consumed
meanwhile.
"""

from __future__ import annotations

from sluice.assignment.base import Assignment, Group


def this_round(group: Group, wanted: Assignment) -> Assignment:
    """What of the wanted assignment may be handed out now.

    A partition is held back if a member other than its next owner says that it owns it. But its present owner
    keeps it, even if another member, which the group had dropped, has not heard that it lost it. So nobody
    begins to read it who does not read it already.
    """
    owners = group.owners()
    claims: dict[object, set[str]] = {}
    for member in group.members:
        for partition in member.owned:
            claims.setdefault(partition, set()).add(member.id)
    return {
        member: [
            each for each in held if owners.get(each) == member or claims.get(each, {member}) <= {member}
        ]
        for member, held in wanted.items()
    }
