"""What would be done now: the plan for the hosts and units of the last look, within the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from sluice.placement.base import Move, Plan
from sluice.placement.settled import within
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice_hosts.units.failures import Failure
from sluice_hosts.units.kinds import Kind, Running
from sluice_hosts.units.view import HostState, View, view


@dataclass(frozen=True)
class Proposal:
    """What would be done now. left: moves that the budget of this hour still allows."""

    view: View
    plan: Plan
    left: int

    def why(self, move: Move) -> str:
        """The reason of a move, for people."""
        why = self.view.leaves(self.unit(move.unit)) or move.why
        failure = self.resort(move)
        return f"{why}; no other host can take it, although {failure}" if failure else why

    def resort(self, move: Move) -> Failure | None:
        """Why the target is avoided, if it is the last resort."""
        return self.view.failed.at(move.unit, move.target)

    def unit(self, name: str) -> Running:
        return next(each.running for each in self.view.units if each.running.name == name)

    def source(self, move: Move) -> str:
        """The host that the unit leaves; the plan names none if the host is not open."""
        return move.source or self.view.cluster.placed[move.unit]

    def rows(self) -> Iterator[tuple[int | None, str, str, str | None, str]]:
        """Step, unit, from, to and why of each move; units without a place have neither step nor target."""
        for number, step in enumerate(self.plan.steps, start=1):
            for move in step:
                yield number, move.unit, self.source(move), move.target, self.why(move)
        for each in self.plan.unplaced:
            yield None, each.unit, self.view.cluster.placed[each.unit], None, each.why

    def notes(self) -> Iterator[str]:
        """What else a reader must know: hosts that take no units, and moves that wait."""
        for host in self.view.hosts:
            if host.state in (HostState.AWAY, HostState.WAITING, HostState.BARRED):
                yield f"host {host.name} {host.why}"
        for row in self.view.under_way:
            yield f"{row.unit} moves from {row.source} to {row.target} now, or that move was broken off"
        for failure in self.view.failed.hosts:
            yield f"host {failure.target} is avoided until {failure.until:%H:%M} UTC: {failure}"
        for each in self.view.units:
            if kept := self.view.kept(each.running):
                until = f"{kept.until:%H:%M} UTC"
                yield f"{each.running.name} is not moved to even hosts out until {until}: {kept}"
        if not self.view.settled:
            yield "units that can stay do so until it is known whether the silent host is gone"
        if self.plan.waiting:
            yield f"{self.plan.waiting} moves wait; this hour {self.left} more may begin"


def propose(
    settings: Settings,
    database: sa.Engine,
    kinds: Sequence[Kind],
    even: bool = True,
    since: datetime | None = None,
) -> Proposal:
    """Plan with what is known now, within what the budget leaves.

    even: also move units that may stay, to even hosts out. That waits while it is not known of a host whether
    it is gone. since: targets of moves that failed before are not avoided.
    """
    seen = view(settings, database, kinds, since=since)
    with database.connect() as connection:
        left = max(0, settings.placement.moves_an_hour - book.counted(connection, seen.at))
    budget = left if even and seen.settled else 0
    plan = within(seen.cluster, budget)
    if stuck := [each.unit for each in plan.unplaced if seen.avoiding(each.unit)]:
        resigning = seen.resigning(stuck)
        other = within(resigning.cluster, budget)
        if len(other.unplaced) < len(plan.unplaced):
            seen, plan = resigning, other
    return Proposal(seen, plan, left)
