"""Why a unit is where it is, why it stays or goes, and what each other host would cost, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sluice.placement import plan as planner
from sluice.placement.base import Move
from sluice.placement.measures import shares
from sluice.placement.usage import slots_used
from sluice.storage.tables.units import MoveRow
from sluice_hosts.units.proposals import Proposal
from sluice_hosts.units.view import HostState, HostView, UnitView

#: Differences that are not worth a word.
_EVEN = 0.005


class NoSuchUnit(LookupError):
    """There is no unit of that name."""


@dataclass(frozen=True)
class Alternative:
    """Another host for a unit. busiest: by how much the busiest host would then be above the mean, and which.

    None if the unit cannot run there.
    """

    host: str
    says: str
    busiest: float | None = None


@dataclass(frozen=True)
class UnitExplanation:
    """One unit. moves_to: None if it stays."""

    unit: str
    host: str
    moves_to: str | None
    says: tuple[str, ...]
    alternatives: tuple[Alternative, ...]

    @property
    def text(self) -> str:
        lines = [*self.says, *(each.says for each in self.alternatives)]
        return f"{self.unit}\n" + "".join(f"  {line}\n" for line in lines)


def explain(
    proposal: Proposal, history: Mapping[str, MoveRow], name: str | None = None
) -> list[UnitExplanation]:
    """One unit, or all. history: the last move of each unit that has moved. Raises NoSuchUnit."""
    units = proposal.view.units
    chosen = [each for each in units if name in (None, each.running.name)]
    if name is not None and not chosen:
        known = ", ".join(each.running.name for each in units) or "none"
        raise NoSuchUnit(f"there is no unit {name!r}: the units are {known}")
    explainer = _Explainer(proposal)
    return [explainer.unit(each, history.get(each.running.name)) for each in chosen]


class _Explainer:
    def __init__(self, proposal: Proposal) -> None:
        self._proposal, self._view, self._cluster = proposal, proposal.view, proposal.view.cluster
        self._placed = self._cluster.running()
        self._shares = shares(self._cluster, self._placed) if self._cluster.hosts else {}
        self._used = slots_used(self._cluster, self._placed)
        self._moves = {move.unit: move for step in proposal.plan.steps for move in step}
        self._unplaced = {each.unit: each.why for each in proposal.plan.unplaced}

    def unit(self, unit: UnitView, last: MoveRow | None) -> UnitExplanation:
        running = unit.running
        move = self._moves.get(running.name)
        says = (*self._where(unit, last), self._load(unit), *self._verdict(unit, move))
        others = [host for host in self._view.hosts if host.name != running.host] if running.movable else []
        alternatives = tuple(self._alternative(unit, host) for host in others)
        return UnitExplanation(running.name, running.host, move.target if move else None, says, alternatives)

    def _where(self, unit: UnitView, last: MoveRow | None) -> Iterator[str]:
        running, host = unit.running, self._view.states.get(unit.running.host)
        room = ""
        if host is not None and host.state == HostState.OPEN:
            room = f": {self._used[host.name]} of its {host.slots} slots are taken"
        yield f"It is on {running.host}{room}."
        if not running.movable:
            yield "It is fixed there, and the placement never moves it."
        elif last is not None and last.target == running.host:
            yield f"It moved there on {last.begun_at:%Y-%m-%d at %H:%M} UTC, because {last.why}."
        else:
            yield "No move that is still known brought it there."

    @staticmethod
    def _load(unit: UnitView) -> str:
        if unit.cpu is None:
            return "Its load has not been measured for long enough: it weighs as much as its slots."
        parts = [f"It uses {unit.cpu:.3g} reference cores"]
        parts += [] if unit.events is None else [f"takes in {unit.events:,.1f} blocks of lines a second"]
        parts += [] if unit.fill is None else [f"and its channel is {unit.fill:.0f}% full"]
        return ", ".join(parts) + "."

    def _verdict(self, unit: UnitView, move: Move | None) -> Iterator[str]:
        running, host = unit.running, self._view.states.get(unit.running.host)
        under_way = next((row for row in self._view.under_way if row.unit == running.name), None)
        if under_way is not None:
            yield f"It moves from {under_way.source} to {under_way.target} now, or that move was broken off."
        elif move is not None:
            yield f"It is to move to {move.target}, because {self._proposal.why(move)}."
        elif running.name in self._unplaced:
            yield f"No host can take it: {self._unplaced[running.name]}."
        elif host is not None and host.state in (HostState.WAITING, HostState.BARRED):
            yield f"It is left alone, because {host.name} {host.why}."
        elif failure := self._view.kept(running):
            yield f"It stays until {failure.until:%H:%M} UTC: {failure}."
        elif running.movable:
            yield f"It stays: {self._stays(running.host)}."

    def _stays(self, host: str) -> str:
        plan, share = self._proposal.plan, self._shares.get(host, 1.0) - 1
        start = planner.DEFAULT.start
        if not self._view.settled:
            return "a host does not answer, and until it is known whether it is gone nothing else moves"
        if plan.waiting:
            left = self._proposal.left
            allowed = f"this hour allows {left} more" if left else "the moves of this hour are used up"
            return f"{allowed}, and {plan.waiting} wait; it may be one of them"
        busy = f"{host} is {_percent(share)}"
        if max((each - 1 for each in self._shares.values()), default=0.0) <= start:
            return f"{busy}, and nothing moves until a host is more than {start:.0%} busier"
        if share <= start:
            return f"{busy}; other units move if any do"
        return f"{busy}, but no move makes the busiest host a twentieth less busy, or others do it better"

    def _alternative(self, unit: UnitView, host: HostView) -> Alternative:
        if why := self._impossible(unit, host):
            return Alternative(host.name, f"It cannot run on {host.name}: {why}.")
        failure = self._view.failed.at(unit.running.name, host.name)
        after = shares(self._cluster, {**self._placed, unit.running.name: host.name})
        busiest, before = max(after, key=lambda name: (after[name], name)), max(self._shares.values())
        change = after[busiest] - before
        better = "as now" if abs(change) < _EVEN else f"now it is {_percent(before - 1)}"
        there = f"On {host.name}, {host.name} would be {_percent(after[host.name] - 1)}"
        there += f", and the busiest host, {busiest}, {_percent(after[busiest] - 1)} ({better})."
        if failure is not None:
            there += f" It avoids {host.name} until {failure.until:%H:%M} UTC: {failure}."
        return Alternative(host.name, there, after[busiest] - 1)

    def _impossible(self, unit: UnitView, host: HostView) -> str:
        running = unit.running
        if host.state != HostState.OPEN or running.role in host.refuses:
            return f"it {host.why or host.refuses[running.role]}"
        if host.slots - self._used[host.name] < running.slots:
            return f"all of its {host.slots} slots are taken"
        twins = [
            each.running.name
            for each in self._view.units
            if running.group is not None
            and each.running.group == running.group
            and each.running.name != running.name
            and self._placed.get(each.running.name) == host.name
        ]
        return f"{twins[0]} is there, and one takes over when the other fails" if twins else ""


def _percent(share: float) -> str:
    if abs(share) < _EVEN:
        return "as busy as the mean"
    return f"{abs(share):.0%} {'busier' if share > 0 else 'idler'} than the mean"
