"""Who owns what, by the events of a run, and whether the group has settled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sluice.assignment.base import AssignedPartition, Assignment
from sluice_lab.transmission.members import MemberEvent

#: Time without a change of owner after which a group has settled: more than one beat.
QUIET_SECONDS = 2.0
_CHANGES = ("assigned", "revoked", "lost")


def owners(events: Sequence[MemberEvent], at: float = float("inf")) -> Assignment:
    """What each member in the group had at that second. A member that has left is not there."""
    found: dict[str, set[AssignedPartition]] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.at > at:
            break
        if event.kind == "assigned":
            for others in found.values():  # a member that stood still has not heard that it lost them
                others.difference_update(event.partitions())
            found.setdefault(event.member, set()).update(event.partitions())
        elif event.kind in ("revoked", "lost"):
            found.setdefault(event.member, set()).difference_update(event.partitions())
        elif event.kind in ("left", "failed"):
            found.pop(event.member, None)
    return {member: sorted(found[member]) for member in sorted(found)}


def unsettled(
    events: Sequence[MemberEvent], now: float, members: Collection[str], partitions: Mapping[str, int]
) -> str:
    """Why the group is not stable yet, in words; empty if it is.

    members: those that should be in the group and can work. A stable group has a reader for each partition
    and partitions for each member, and nothing has changed hands for QUIET_SECONDS.
    """
    held = owners(events)
    if stale := sorted(member for member, some in held.items() if some and member not in members):
        return f"{', '.join(stale)} still has partitions"
    if idle := sorted(member for member in members if not held.get(member)):
        return f"{', '.join(idle)} has no partition"
    owned = {each for some in held.values() for each in some}
    every = {AssignedPartition(topic, n) for topic, count in partitions.items() for n in range(count)}
    if missing := len(every - owned):
        return f"{missing} partitions have no owner"
    changes = [event for event in events if event.kind in _CHANGES and event.what["of"]]
    if any(now - event.at < QUIET_SECONDS for event in changes):
        return "partitions changed hands a moment ago"
    if unread := every - _read(events):
        return f"{len(unread)} partitions were not read since they changed hands"
    return ""


def _read(events: Sequence[MemberEvent]) -> set[AssignedPartition]:
    """The partitions that were read after they were assigned for the last time."""
    read: set[AssignedPartition] = set()
    for event in sorted(events, key=lambda event: event.at):
        if event.kind == "assigned":
            read.difference_update(event.partitions())
        elif event.kind == "got":
            read.update(event.partitions())
    return read
