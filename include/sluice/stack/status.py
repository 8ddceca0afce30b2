"""The state, health and memory of an instance's daemons and jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from sluice.runtime import detached, holds, successor
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.stack import catalogue, disks, supervisord
from sluice.stack.entry import check
from sluice.stack.memory import proportional_bytes
from sluice.stack.networking import network

if TYPE_CHECKING:
    from sluice.storage.tables.alerts import Alert


class DaemonState(StrEnum):
    """What is known of a daemon or job: supervisord's states, and three of the platform's own."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"  # it ended at once, and is started again
    STOPPING = "stopping"
    EXITED = "exited"
    FATAL = "fatal"  # it ended at once too often
    UNKNOWN = "unknown"  # supervisord does not know, or the host of a job does not answer
    DEAD = "dead"  # a job whose process has ended, and nobody stopped it
    EXTERNAL = "external"  # others run it


@dataclass(frozen=True)
class StatusLine:
    """One daemon or job. ``port`` is 0 if it has none, ``problem`` empty if it is healthy."""

    name: str
    state: DaemonState
    port: int
    memory_bytes: int
    problem: str

    @property
    def healthy(self) -> bool:
        return not self.problem


def daemons(settings: Settings) -> list[StatusLine]:
    """Every daemon; those that are started are asked for their health, all at the same time."""
    programs = supervisord.programs(settings) if supervisord.running(settings) else {}
    apart = _job_pids(settings)
    wanted = catalogue.in_order()
    with ThreadPoolExecutor(len(wanted)) as pool:
        return list(pool.map(lambda daemon: _daemon(settings, daemon.name, programs, apart), wanted))


def jobs(settings: Settings) -> list[StatusLine]:
    """The detached processes that were started and not stopped.

    These are Flume's agents, the speed layer and the archiver, and the gateway. A successor is shown while it
    runs.
    """
    run, apart = settings.home / "run", network.folder(settings)
    lines = [_job(name, run) for name in detached.names(run)]
    lines = [line for line in lines if line.healthy or successor.whose(line.name) == line.name]
    if detached.read(network.GATEWAY, apart) is not None:  # beside its record lie files that are none
        lines.append(_job(network.GATEWAY, apart))
    return lines


@dataclass(frozen=True)
class DiskLine:
    """A file system that has folders of the instance. free, size: bytes; problem: empty if it has space."""

    folders: tuple[str, ...]
    free: int
    size: int
    problem: str


def disk_lines(settings: Settings) -> list[DiskLine]:
    """Every file system, and what it has too little space for."""
    return [DiskLine(disk.folders, disk.free, disk.size, _short_of(disk)) for disk in disks.look(settings)]


def held(settings: Settings) -> dict[str, str]:
    """What is held because a disk is nearly full, and why."""
    return {what.value: why for what in Hold if (why := holds.reason(settings.home, what))}


def _short_of(disk: disks.Disk) -> str:
    if disk.full:
        return "full: no daemon that needs it is started"
    short = [what for what in Hold if disk.free < disk.level(what)]
    return f"nearly full: {' and '.join(short)} held" if short else ""


def alerts(settings: Settings) -> list[Alert]:
    """The open alerts, oldest first.

    There are none if PostgreSQL does not answer; the daemons' lines then say so.
    """
    from sqlalchemy.exc import DBAPIError

    from sluice.storage.postgres import engine
    from sluice.storage.tables.alerts import open_alerts

    try:
        return open_alerts(engine(settings))
    except DBAPIError:
        return []


def family_bytes(pid: int, apart: Collection[int] = ()) -> int:
    """The memory of a process and its descendants, with shared pages counted once.

    The processes in ``apart`` and their descendants are left out.
    """
    if pid in apart:
        return 0
    try:
        children = [child.pid for child in psutil.Process(pid).children()]
    except psutil.NoSuchProcess:
        return 0
    return proportional_bytes(pid) + sum(family_bytes(child, apart) for child in children)


def _job_pids(settings: Settings) -> set[int]:
    """The detached processes; each is a child of its starter, but not a part of it."""
    run = settings.home / "run"
    records = [detached.read(name, run) for name in detached.names(run)]
    return {record.pid for record in records if record is not None}


def _job(name: str, run: Path) -> StatusLine:
    record = detached.read(name, run)
    living = detached.alive(record)
    memory = family_bytes(record.pid) if record and living else 0
    state = DaemonState.RUNNING if living else DaemonState.DEAD
    return StatusLine(name, state, 0, memory, "" if living else "see its log")


def _daemon(
    settings: Settings, name: str, programs: Mapping[str, supervisord.Program], apart: Collection[int]
) -> StatusLine:
    daemon = catalogue.DAEMONS[name]
    port = settings.port(daemon.ports[0]) if daemon.ports else 0
    program = programs.get(name)
    if program is None and not (programs and daemon.for_clients):
        state = DaemonState.EXTERNAL if programs else DaemonState.STOPPED
        return StatusLine(name, state, port, 0, "" if programs else "not running")
    if program is None:
        return StatusLine(name, DaemonState.EXTERNAL, 0, 0, check(settings, name) or "")
    state = DaemonState(program.state.lower())
    if state not in (DaemonState.RUNNING, DaemonState.STARTING):
        return StatusLine(name, state, port, 0, program.message or "not running")
    return StatusLine(name, state, port, family_bytes(program.pid, apart), check(settings, name) or "")
