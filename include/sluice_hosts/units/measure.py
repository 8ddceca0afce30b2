"""One look at all hosts and units: who answers, what is used. What it finds is kept in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import sqlalchemy as sa

from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError, HostUnreachable
from sluice.collection.metrics import MetricsUnreachable
from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow, UnitRow
from sluice_hosts import hosts
from sluice_hosts.hosts import Host
from sluice_hosts.trust import enrolment
from sluice_hosts.units import answering, processes, smoothing, speed
from sluice_hosts.units.kinds import Kind, ObservedUnit, Observer, Running
from sluice_hosts.units.processes import HostReading, Process, ReadingError, Run
from sluice_hosts.units.smoothing import Mean

#: A JVM compiles itself when it starts: what a process used before this age says nothing.
WARM_SECONDS = 60.0
#: How often the speed of a host is measured again.
SPEED_EVERY = timedelta(days=1)
AT_ONCE = 16
#: A unit's readings are capped at these values: reference cores, events a second.
_MOST_CORES, _MOST_EVENTS = 1e4, 1e9
#: A host is silent since it was first seen so, if looks follow each other; else since the last look.
_GAPS = 4


@dataclass(frozen=True)
class Reading:
    """What a look found of a unit's process. cpu, events: since it began.

    host: where. begun_at, warm_at: of all the unit's processes that were seen on this host, one after the
    other, when the first one began, and when one was last seen that had run for a while.
    """

    at: float  # seconds since the epoch
    process: str
    cpu: float
    age: float
    events: float | None
    fill: float | None
    host: str = ""
    begun_at: float | None = None
    warm_at: float | None = None


@dataclass(frozen=True)
class HostLook:
    """What a look found of a host. silent: nobody answers there. why: it cannot be used, and why."""

    at: datetime
    machine: HostReading | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    core: float | None = None
    silent: bool = False
    why: str = ""


def look(settings: Settings, database: sa.Engine, kinds: Sequence[Kind]) -> None:
    """Look once, and keep what was found. A host that hangs is waited for, beside the others.

    Raises InventoryError, HostsError, and what PostgreSQL raises.
    """
    with database.connect() as connection:
        units, rows = book.read_units(connection), book.read_hosts(connection)
    there = hosts.load(settings)
    running = [(kind, unit) for kind in kinds for unit in kind.units(settings, len(there))]
    observers = {kind.name: kind.observer(settings) for kind in kinds}

    def ask(host: Host) -> HostLook:
        mine = [unit for _, unit in running if unit.host == host.name]
        return _look(settings, host, mine, observers, rows.get(host.name))

    with ThreadPoolExecutor(min(AT_ONCE, len(there))) as pool:
        looks = dict(zip(there, pool.map(ask, there.values()), strict=True))
    host_rows = [
        host_row(name, rows.get(name), each, units, settings.placement) for name, each in looks.items()
    ]
    cores = {row.host: row.core for row in host_rows}
    unit_rows = []
    for _, unit in running:
        found = looks[unit.host].readings.get(unit.name) if unit.host in looks else None
        before = units.get(unit.name) or UnitRow(unit.name)
        half_life = settings.placement.half_life_seconds
        unit_rows.append(unit_row(before, found, cores.get(unit.host) or 1.0, half_life))
    with database.begin() as connection:
        book.write(connection, unit_rows, host_rows)


def unit_row(before: UnitRow, now: Reading | None, core: float, half_life: float) -> UnitRow:
    """The unit after a reading; core: how fast a core of its host is. Without a reading nothing changes."""
    if now is None:
        return before
    old, means = _before(before.reading, now), smoothing.read(before.smoothed)
    if old is not None and old.age >= WARM_SECONDS:
        seconds = now.at - old.at
        # A host may say anything of its processes.
        samples = {"cpu": min((now.cpu - old.cpu) / seconds * core, _MOST_CORES), "fill": now.fill}
        if now.events is not None and old.events is not None:
            samples["events"] = min(max(0.0, now.events - old.events) / seconds, _MOST_EVENTS)
        for name, value in samples.items():
            if value is not None:
                means[name] = means.get(name, Mean()).then(value, seconds, half_life)
    return replace(before, smoothed=smoothing.kept(means), reading=vars(_remembering(before.reading, now)))


def host_row(
    name: str,
    before: HostRow | None,
    now: HostLook,
    units: Mapping[str, UnitRow],
    placement: Placement,
) -> HostRow:
    """The host after a look. units: as they were at the look before, to know what runs there beside them."""
    row = before or HostRow(name, now.at)
    if now.machine is not None:
        means = smoothing.read(row.smoothed)
        reading = {"at": now.at.timestamp(), "busy": now.machine.busy}
        if row.reading is not None and (seconds := reading["at"] - row.reading["at"]) > 0:
            others = (now.machine.busy - row.reading["busy"] - _used(now.readings, units)) / seconds
            if now.machine.busy >= row.reading["busy"]:  # it was not booted meanwhile
                before_it, half_life = means.get("others", Mean()), placement.half_life_seconds
                means["others"] = before_it.then(max(0.0, others), seconds, half_life)
        row = replace(row, smoothed=smoothing.kept(means), reading=reading, cores=now.machine.cores)
    if now.core is not None:
        row = replace(row, core=now.core)
    if now.machine is not None and speed_due(before, now.at):
        row = replace(row, measured_at=now.at)
    silent = silent_since(before, now, timedelta(seconds=_GAPS * placement.silent_seconds))
    return replace(row, looked_at=now.at, silent_since=silent, why=now.why)


def silent_since(before: HostRow | None, now: HostLook, gap: timedelta) -> datetime | None:
    """Since when the host has not answered; None if it does. After a gap between looks it begins now."""
    if not now.silent:
        return None
    if before is None or now.at - before.looked_at > gap:
        return now.at
    return before.silent_since or before.looked_at


def speed_due(before: HostRow | None, at: datetime) -> bool:
    """Whether the speed of the host is to be measured."""
    return before is None or before.measured_at is None or at - before.measured_at > SPEED_EVERY


def _look(
    settings: Settings,
    host: Host,
    units: Sequence[Running],
    observers: Mapping[str, Observer],
    before: HostRow | None,
) -> HostLook:
    if before is not None and before.silent_since is not None and not answering.answers(settings, host):
        return HostLook(datetime.now(UTC), silent=True, why=before.why)  # a connection is waited for longer
    try:
        run = _run(settings, host)
        observed = {unit.name: each for unit in units if (each := observers[unit.kind](unit.name))}
        machine = processes.read(run, [each.pid for each in observed.values()])
        core = speed.measure(run) if speed_due(before, datetime.now(UTC)) else None
    except HostUnreachable as error:
        silent = not answering.answers(settings, host)
        return HostLook(datetime.now(UTC), silent=silent, why=_printable(error))
    except (AgentError, MetricsUnreachable, ReadingError, OSError) as error:  # a host may answer anything
        return HostLook(datetime.now(UTC), why=_printable(error))
    at = datetime.now(UTC)
    found = {
        unit: _reading(at, host.name, each, machine.processes[each.pid])
        for unit, each in observed.items()
        if each.pid in machine.processes
    }
    return HostLook(at, machine, found, core)


def _run(settings: Settings, host: Host) -> Run:
    """How commands are run there. Raises EnrolError."""
    return processes.here if host.name == LOCAL else partial(enrolment.link(settings, host).run)


def _printable(error: Exception) -> str:
    """What a host says goes into PostgreSQL, which takes no NUL."""
    return "".join(each if each.isprintable() else " " for each in str(error) or type(error).__name__)[:500]


def _reading(at: datetime, host: str, observed: ObservedUnit, process: Process) -> Reading:
    fill = None if observed.fill is None else min(max(observed.fill, 0.0), 100.0)
    return Reading(at.timestamp(), process.identity, process.cpu, process.age, observed.events, fill, host)


def _remembering(stored: Mapping[str, Any] | None, now: Reading) -> Reading:
    """The reading, with what those before it on the same host said of earlier processes."""
    same = stored if stored is not None and stored.get("host") == now.host else {}
    begun_at, warm_at = same.get("begun_at"), same.get("warm_at")
    return replace(
        now,
        begun_at=now.at - now.age if begun_at is None else begun_at,
        warm_at=now.at if now.age >= WARM_SECONDS else warm_at,
    )


def _before(stored: Mapping[str, Any] | None, now: Reading) -> Reading | None:
    """The reading before, if it is of the same process and older."""
    if stored is None:
        return None
    old = Reading(**stored)
    return old if old.process == now.process and old.at < now.at and old.cpu <= now.cpu else None


def _used(readings: Mapping[str, Reading], units: Mapping[str, UnitRow]) -> float:
    """Seconds of CPU that the host's units used since the look before."""
    used = 0.0
    for name, now in readings.items():
        row = units.get(name)
        old = _before(row.reading, now) if row else None
        used += now.cpu - old.cpu if old else now.cpu
    return used
