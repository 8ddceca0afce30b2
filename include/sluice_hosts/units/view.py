"""Hosts and units as a plan sees them: from what the last look found, without asking any host."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property

import sqlalchemy as sa

from sluice.collection.agent import LOCAL
from sluice.placement import base
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow, MoveRow, UnitRow
from sluice_hosts import hosts
from sluice_hosts.hosts import Host
from sluice_hosts.trust import broker, enrolment
from sluice_hosts.units import smoothing
from sluice_hosts.units.failures import Failure, Failures, failures
from sluice_hosts.units.kinds import Kind, Running
from sluice_hosts.units.measure import WARM_SECONDS

#: The roles whose units can move.
_TAKES_UNITS: frozenset[str] = frozenset({"collector", "jobs"})
#: Of its cores, a host has at least this part for units, whatever else runs there.
_LEFT = 0.1
#: Grace period, from its start, in which a unit that began on its host after a failed move there counts as
#: running.
_CHANCE = timedelta(seconds=2 * WARM_SECONDS)


class HostState(StrEnum):
    """What a host is for units."""

    OPEN = "open"  # it takes units
    AWAY = "away"  # silent for `placement.silent_seconds` or longer, so its units go elsewhere
    WAITING = "waiting"  # silent for less
    SHUT = "shut"  # it may have no units; those that are there go
    BARRED = "barred"  # nothing can be done there now


@dataclass(frozen=True)
class HostView:
    """A host. cores, core, others, speed: None if not known. why: it is not open, and why.

    refuses: the roles of which it takes no units, and why, although it may be open to others.
    core: how fast one is. others: cores that are busy with what is no unit. speed: what is left for units, in
    reference cores.
    """

    name: str
    slots: int
    state: HostState
    why: str = ""
    cores: int | None = None
    core: float | None = None
    others: float | None = None
    speed: float | None = None
    refuses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UnitView:
    """A unit and its load: reference cores, blocks of lines a second, fill of its channel in per cent.

    None where too little was read. begun_at: when the first of its processes on its host began, or, if none
    was seen there yet, when it was last seen on another one. seen_at: when one was last seen on its host that
    had run for a while.
    """

    running: Running
    cpu: float | None = None
    events: float | None = None
    fill: float | None = None
    begun_at: datetime | None = None
    seen_at: datetime | None = None


@dataclass(frozen=True)
class View:
    """All hosts and units, sorted by name.

    under_way: moves without an end; their units are at both of their hosts. resigned: units that go to
    avoided hosts, too, because no other takes them.
    """

    at: datetime
    hosts: tuple[HostView, ...]
    units: tuple[UnitView, ...]
    failed: Failures = field(default_factory=Failures)
    under_way: tuple[MoveRow, ...] = ()
    resigned: frozenset[str] = frozenset()

    @cached_property
    def states(self) -> Mapping[str, HostView]:
        return {host.name: host for host in self.hosts}

    @property
    def settled(self) -> bool:
        """Whether it is known of each host whether it is there."""
        return not any(host.state == HostState.WAITING for host in self.hosts)

    @cached_property
    def cluster(self) -> base.Cluster:
        """What is planned. Units of hosts that cannot be asked are left alone, and left out."""
        moving = {row.unit for row in self.under_way}
        planned = [
            each for each in self.units if each.running.name not in moving and self._planned(each.running)
        ]
        units = [self._unit(each) for each in planned]
        placed = {each.running.name: each.running.host for each in planned}
        for unit, host in self._moving():
            units.append(unit)
            placed[unit.name] = host
        open_hosts = (each for each in self.hosts if each.state == HostState.OPEN)
        there = tuple(base.HostSlots(each.name, each.slots, each.speed) for each in open_hosts)
        return base.Cluster(there, tuple(units), placed)

    def takes(self, unit: Running, host: str) -> bool:
        """Whether hosts.yaml lets the host have the unit."""
        found = self.states.get(host)
        return found is not None and found.state != HostState.SHUT and unit.role not in found.refuses

    def avoiding(self, unit: str) -> bool:
        """Whether the unit avoids an open host."""
        return any(self.failed.at(unit, host.name) for host in self.hosts if host.state == HostState.OPEN)

    def resigning(self, units: Collection[str]) -> View:
        """The same, if these units avoid no host but one on which they are lost."""
        return replace(self, resigned=frozenset(units))

    def kept(self, unit: Running) -> Failure | None:
        """Why the unit stays on its host, although another one may be idler."""
        host = self.states.get(unit.host)
        stays = unit.movable and host is not None and host.state == HostState.OPEN and not self.leaves(unit)
        return self.failed.of(unit.name) if stays else None

    def leaves(self, unit: Running) -> str:
        """Why the unit cannot stay on its host; empty if it can."""
        host = self.states.get(unit.host)
        if host is None:
            return f"hosts.yaml has no host {unit.host} any more"
        why = host.why if host.state in (HostState.AWAY, HostState.SHUT) else ""
        why = why if host.state == HostState.AWAY else host.refuses.get(unit.role, why)
        if why:
            return f"{host.name} {why}"
        lost = self._lost(unit)
        return f"it does not run on {host.name}: {lost}" if lost else ""

    def _lost(self, unit: Running) -> Failure | None:
        """The move that should have brought the unit to where it is, if it was not seen there since."""
        failure = self.failed.of(unit.name, unit.host)
        if failure is None or not unit.movable:
            return None
        seen = next(each for each in self.units if each.running.name == unit.name)
        if seen.seen_at is not None and seen.seen_at >= failure.at:
            return None
        # Somebody may have repaired the host, and moved the unit there since.
        tried = seen.begun_at is None or seen.begun_at < failure.at or self.at - seen.begun_at > _CHANCE
        return failure if tried else None

    def _moving(self) -> Iterator[tuple[base.Unit, str]]:
        """Units that move now, and their hosts: they take slots of both, and their group keeps off both."""
        shown = {each.running.name: each for each in self.units}
        for row in self.under_way:
            if row.unit not in shown:
                continue
            each = shown[row.unit]
            unit = base.Unit(
                row.unit,
                each.running.slots,
                each.cpu,
                each.running.group,
                each.running.application,
                fixed=True,
            )
            if self._is_open(row.target):
                yield unit, row.target
            if row.source != row.target and self._is_open(row.source):
                yield replace(unit, name=f"{row.unit} (leaves)", load=0.0), row.source

    def _is_open(self, host: str) -> bool:
        return host in self.states and self.states[host].state == HostState.OPEN

    def _planned(self, unit: Running) -> bool:
        host = self.states.get(unit.host)
        if host is not None and host.state == HostState.OPEN:
            return True
        return unit.movable and (host is None or host.state in (HostState.AWAY, HostState.SHUT))

    def _unit(self, each: UnitView) -> base.Unit:
        unit = each.running
        fixed, only = not unit.movable, None if not unit.movable else self._may_have(unit)
        fixed = fixed or self.kept(unit) is not None
        return base.Unit(unit.name, unit.slots, each.cpu, unit.group, unit.application, fixed, only)

    def _may_have(self, unit: Running) -> frozenset[str] | None:
        """The hosts that may have the unit; None if all that are open may."""
        takes = {
            host.name: unit.role not in host.refuses and not self._avoids(unit, host.name)
            for host in self.hosts
            if host.state == HostState.OPEN
        }
        return None if all(takes.values()) else frozenset(name for name, does in takes.items() if does)

    def _avoids(self, unit: Running, host: str) -> bool:
        if host == unit.host:
            return self._lost(unit) is not None
        return unit.name not in self.resigned and self.failed.at(unit.name, host) is not None


def view(
    settings: Settings,
    database: sa.Engine,
    kinds: Sequence[Kind],
    at: datetime | None = None,
    since: datetime | None = None,
) -> View:
    """What is known now. since: moves that failed before are forgotten.

    Raises InventoryError, HostsError, and what PostgreSQL raises.
    """
    at = at or datetime.now(UTC)
    with database.connect() as connection:
        loads, rows = book.read_units(connection), book.read_hosts(connection)
        moved, under_way = book.last_moves(connection, book.KEPT), book.open_moves(connection)
    there = hosts.load(settings).values()
    shown = sorted((host_view(settings, host, rows.get(host.name), at) for host in there), key=_name)
    places = sum(host.state == HostState.OPEN and "collector" not in host.refuses for host in shown)
    running = [unit for kind in kinds for unit in kind.units(settings, places)]
    units = sorted((unit_view(each, loads.get(each.name)) for each in running), key=lambda u: u.running.name)
    return View(at, tuple(shown), tuple(units), failures(moved, at, since), tuple(under_way))


def host_view(settings: Settings, host: Host, row: HostRow | None, at: datetime) -> HostView:
    """One host; row: what the last look found, if there was one."""
    state, why = state_of(settings, host, row, at)
    given, refuses = settings.placement.speeds.get(host.name), _refuses(settings, host)
    if row is None or row.cores is None:
        return HostView(host.name, host.slots, state, why, speed=given, refuses=refuses)
    others = smoothing.read(row.smoothed).get("others", smoothing.Mean()).value
    free = max(row.cores - (others or 0.0), _LEFT * row.cores)
    speed = given or (row.core * free if row.core is not None else None)
    return HostView(host.name, host.slots, state, why, row.cores, row.core, others, speed, refuses)


def state_of(settings: Settings, host: Host, row: HostRow | None, at: datetime) -> tuple[HostState, str]:
    """The host's state, and why it is not open."""
    if not set(host.roles) & _TAKES_UNITS:
        return HostState.SHUT, "has no role collector or jobs in hosts.yaml"
    if row is not None and row.silent_since is not None:
        gone = at - row.silent_since >= timedelta(seconds=settings.placement.silent_seconds)
        why = f"has not answered since {row.silent_since:%H:%M:%S} UTC ({row.why})"
        return (HostState.AWAY if gone else HostState.WAITING), why
    why = "" if host.name == LOCAL else _barred(settings, host, row)
    return (HostState.BARRED if why else HostState.OPEN), why


def _barred(settings: Settings, host: Host, row: HostRow | None) -> str:
    """Why nothing can be done on another host that is not silent; empty if something can."""
    if (said := enrolment.state(settings, host)) != "yes":
        return f"is not enrolled: {said}"
    if "collector" in host.roles and host.name not in broker.admitted(settings):
        return f"has no user in Kafka yet: run `sluice hosts enrol {host.name}`"
    if row is None:
        return "has not been looked at yet"
    return f"cannot be used: {row.why}" if row.why else ""


def _refuses(settings: Settings, host: Host) -> dict[str, str]:
    found = {role: f"has no role {role} in hosts.yaml" for role in _TAKES_UNITS - set(host.roles)}
    if "jobs" in host.roles and host.name != LOCAL and not enrolment.release_of(settings, host):
        found["jobs"] = f"has no checked release: run `sluice hosts enrol {host.name}`"
    return found


def unit_view(unit: Running, row: UnitRow | None) -> UnitView:
    means = smoothing.read(row.smoothed) if row else {}
    found = {name: mean.value for name, mean in means.items()}
    reading = (row.reading if row else None) or {}
    here = reading.get("host") == unit.host
    begun_at = _time(reading.get("begun_at" if here else "at"))
    seen_at = _time(reading.get("warm_at")) if here else None
    return UnitView(unit, found.get("cpu"), found.get("events"), found.get("fill"), begun_at, seen_at)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _name(host: HostView) -> str:
    return host.name
