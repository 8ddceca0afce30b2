"""The parts of a running platform: what can be killed, stopped or cut off, and whether each works."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

import psutil

from sluice.collection import deploy, lifecycle
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import catalogue, entry, jobs, supervisord
from sluice.stack.progress import DriverState, SpeedLayerProgress
from sluice_lab.chaos.draws import OF_DISK, OF_NETWORK, FaultKind
from sluice_lab.chaos.file_systems import FOLDERS
from sluice_lab.chaos.stores import STORES

WATCH = "watch"
#: How a process began that is not the daemon yet (templates/supervisord.conf).
ENTRY = ["-m", "sluice.stack", "run"]


class PartSort(StrEnum):
    """Who keeps a part, and how it says that it works."""

    DAEMON = "daemon"  # supervisord; it is asked for its health
    WATCH = "watch"  # supervisord
    JOB = "job"  # Airflow; it writes a progress file
    AGENT = "agent"  # Airflow; it is asked for its counters


@dataclass(frozen=True)
class ChaosPart:
    """A daemon, the watch, a job or one of Flume's agents."""

    name: str
    sort: PartSort


@dataclass(frozen=True)
class PartHealth:
    """A part at one moment. problem: empty if it works. said: when it last said so itself (Unix time)."""

    pid: int
    problem: str
    said: float | None = None


def parts_of(settings: Settings) -> list[ChaosPart]:
    """The instance's own daemons, the watch, the drivers, the first archiver and the agents, in this order.

    Other archivers come and go with the lag. The gateway is no part: the instance's next command starts it.
    """
    daemons = [ChaosPart(each.name, PartSort.DAEMON) for each in catalogue.own(settings)]
    members = [*jobs.drivers(settings), jobs.ARCHIVER]
    agents = sorted(each.process for each in deploy.agents(settings))
    return [
        *daemons,
        ChaosPart(WATCH, PartSort.WATCH),
        *(ChaosPart(name, PartSort.JOB) for name in members),
        *(ChaosPart(name, PartSort.AGENT) for name in agents),
    ]


def pairs(
    settings: Settings, parts: Iterable[ChaosPart], kinds: Iterable[FaultKind]
) -> dict[FaultKind, list[str]]:
    """To which parts each kind can happen."""
    names = [part.name for part in parts]

    def possible(kind: FaultKind, name: str) -> bool:
        if kind in OF_NETWORK:
            return bool(ports(settings, name))
        if kind in OF_DISK:
            return name in FOLDERS
        return kind != FaultKind.POWER_CUT or name in STORES

    return {kind: [name for name in names if possible(kind, name)] for kind in kinds}


def ports(settings: Settings, name: str) -> list[int]:
    """The ports on which the daemon listens; none of what is no daemon."""
    known = catalogue.DAEMONS.get(name)
    return [settings.port(port) for port in known.ports] if known else []


def process(settings: Settings, part: ChaosPart) -> psutil.Process | None:
    """The part's own process; None while it does not run."""
    with suppress(psutil.NoSuchProcess, supervisord.SupervisorDown):
        pid = _pid(settings, part, _programs(settings))
        return psutil.Process(pid) if pid else None
    return None


def family(settings: Settings, root: psutil.Process) -> list[psutil.Process]:
    """A process and its descendants, without the jobs and agents that it started."""
    run = settings.home / "run"
    apart = {record.pid for name in detached.names(run) if (record := detached.read(name, run))} - {root.pid}
    found = [root]
    for one in found:
        with suppress(psutil.NoSuchProcess):
            found += [child for child in one.children() if child.pid not in apart]
    return found


def look(settings: Settings, parts: Sequence[ChaosPart]) -> dict[str, PartHealth]:
    """Each part's health now; all are asked at the same time."""
    programs = _programs(settings)
    with ThreadPoolExecutor(len(parts)) as pool:
        found = pool.map(lambda part: _health(settings, part, programs), parts)
        return dict(zip((part.name for part in parts), found, strict=True))


def _programs(settings: Settings) -> dict[str, supervisord.Program]:
    try:
        return supervisord.programs(settings)
    except supervisord.SupervisorDown:
        return {}


def _pid(settings: Settings, part: ChaosPart, programs: Mapping[str, supervisord.Program]) -> int:
    if part.sort in (PartSort.DAEMON, PartSort.WATCH):
        return programs[part.name].pid if part.name in programs else 0
    record = detached.read(part.name, settings.home / "run")
    return record.pid if record and detached.alive(record) else 0


def _health(settings: Settings, part: ChaosPart, programs: Mapping[str, supervisord.Program]) -> PartHealth:
    try:
        pid = _pid(settings, part, programs)
        if not pid:
            return PartHealth(0, "it does not run")
        match part.sort:
            case PartSort.DAEMON:
                # Airflow's heartbeats look fresh for half a minute after the end of who sent them.
                waits = psutil.Process(pid).cmdline()[1:4] == ENTRY
                return PartHealth(pid, "it waits" if waits else entry.check(settings, part.name) or "")
            case PartSort.WATCH:
                state = programs[part.name].state
                return PartHealth(pid, "" if state == "RUNNING" else state)
            case PartSort.AGENT:
                name = part.name.removeprefix("flume-")
                lifecycle.counters(settings, deploy.agent(settings, name))
                return PartHealth(pid, "")
            case PartSort.JOB:
                return _of_job(settings, part.name, pid)
    except Exception as error:  # whatever a client raises of a part that is not there: it does not work
        return PartHealth(0, " ".join(str(error).split()) or type(error).__name__)


def _of_job(settings: Settings, name: str, pid: int) -> PartHealth:
    document = jobs.of_member(settings, name)
    said = jobs.written(document)
    problem = ""
    if time.time() - said > jobs.SILENT_SECONDS:
        problem = "it is silent"
    elif isinstance(document, SpeedLayerProgress):
        failing = jobs.failing(settings, jobs.SPEED_LAYER)
        running = document.state == DriverState.RUNNING
        problem = "; ".join(failing.values()) if running else f"it is {document.state}"
    return PartHealth(pid, problem, said)
