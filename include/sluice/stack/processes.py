"""The processes of an instance's daemons, found by a mark in their environment."""

from __future__ import annotations

import os
from collections.abc import Sequence

import psutil

from sluice.settings import Settings
from sluice.stack.environment import DAEMON
from sluice.stack.process import TOKEN

GRACE_SECONDS = 10.0


def mark(settings: Settings, name: str) -> str:
    return f"{settings.home}:{name}"


def of_daemon(settings: Settings, name: str | None = None) -> list[psutil.Process]:
    """The living processes of that daemon, or of all of the instance's; without this one and its ancestors.

    Detached jobs carry the mark of the daemon that started them, and a token of their own: they are not its.
    """
    wanted = mark(settings, name) if name else f"{settings.home}:"
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid in spared or process.status() == psutil.STATUS_ZOMBIE:
                continue
            variables = process.environ()
        except (psutil.Error, OSError):
            continue
        value = variables.get(DAEMON, "")
        if TOKEN not in variables and (value == wanted if name else value.startswith(wanted)):
            found.append(process)
    return found


def stop(processes: Sequence[psutil.Process]) -> None:
    """SIGTERM to all, SIGKILL to those that are still there after the grace."""
    for process in processes:
        _send(process, terminate=True)
    _, stubborn = psutil.wait_procs(list(processes), timeout=GRACE_SECONDS)
    for process in stubborn:
        _send(process, terminate=False)
    psutil.wait_procs(stubborn, timeout=GRACE_SECONDS)


def _send(process: psutil.Process, *, terminate: bool) -> None:
    try:
        process.terminate() if terminate else process.kill()
    except psutil.NoSuchProcess:
        return
