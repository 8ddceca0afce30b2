"""Finds the processes of an instance's daemons by environment variable or process group.

A program that sets its own title (as Airflow's executor does) overwrites the variable that marks it. But it
stays in the process group that its daemon began, and a record of that group is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import psutil

from sluice.runtime.detached import TOKEN
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack.environment import DAEMON

GRACE_SECONDS = 10.0
# A process's start time is computed from the system clock, which may be set between two readings.
CLOCK_SECONDS = 2.0


def mark(settings: Settings, name: str) -> str:
    return f"{settings.home}:{name}"


def remember(settings: Settings, name: str) -> None:
    """Record the process group of this process, which is about to become the daemon."""
    path = _groups(settings) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    me = psutil.Process()
    group = {"group": os.getpgid(0), "session": os.getsid(0), "started": me.create_time()}
    write_whole(path, json.dumps(group))


def of_daemon(settings: Settings, name: str | None = None) -> list[psutil.Process]:
    """The living processes of that daemon, or of all daemons of the instance.

    This process and its ancestors are left out. So are detached jobs: they carry the mark of the daemon that
    started them, but also a token of their own.
    """
    wanted = mark(settings, name) if name else f"{settings.home}:"
    groups = _read_groups(settings, name)
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid in spared or process.status() == psutil.STATUS_ZOMBIE:
                continue
            variables = _environment(process)
            group = (os.getpgid(process.pid), os.getsid(process.pid))
        except (psutil.Error, OSError):
            continue
        value = variables.get(DAEMON, "")
        marked = value == wanted if name else value.startswith(wanted)
        # Group numbers are reused: a process that is older than the daemon does not belong to its group.
        started = groups.get(group, float("inf")) - CLOCK_SECONDS
        member = DAEMON not in variables and process.create_time() >= started
        if TOKEN not in variables and (marked or member):
            found.append(process)
    return found


def stop(processes: Sequence[psutil.Process]) -> None:
    """Send SIGTERM to all, and SIGKILL to those that still run after GRACE_SECONDS."""
    for process in processes:
        _send(process, terminate=True)
    _, stubborn = psutil.wait_procs(list(processes), timeout=GRACE_SECONDS)
    kill(stubborn)


def kill(processes: Sequence[psutil.Process]) -> None:
    """Send SIGKILL to all and wait until they are gone, for GRACE_SECONDS at most."""
    for process in processes:
        _send(process, terminate=False)
    psutil.wait_procs(list(processes), timeout=GRACE_SECONDS)


def _groups(settings: Settings) -> Path:
    return settings.home / "run" / "groups"


def _read_groups(settings: Settings, name: str | None) -> dict[tuple[int, int], float]:
    """The start time of the daemon of each (process group, session)."""
    groups = {}
    for path in _groups(settings).glob(f"{name or '*'}.json"):
        record = json.loads(path.read_text())
        groups[record["group"], record["session"]] = record["started"]
    return groups


def _environment(process: psutil.Process) -> dict[str, str]:
    """The variables of a process; none if it is ending: its memory is gone, its ports are not."""
    try:
        return process.environ()
    except psutil.NoSuchProcess:
        return {}


def _send(process: psutil.Process, *, terminate: bool) -> None:
    try:
        process.terminate() if terminate else process.kill()
    except psutil.NoSuchProcess:
        return
