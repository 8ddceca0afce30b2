"""The processes of an emulated host, which carry its home in their environment.

They lose their power, or stand still, all at once.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

#: Variables of every process of a host: its home, and the address that is its 127.0.0.1.
HOME, LOOPBACK = "EMULATED_HOST", "EMULATED_LOOPBACK"
_POLL = 0.01


def processes(home: Path, name: str = "") -> list[psutil.Process]:
    """The host's living processes; with a name, only of programs that are called so."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            own = process.environ().get(HOME) == str(home)
            if own and process.status() != psutil.STATUS_ZOMBIE and process.name().startswith(name):
                found.append(process)
    return found


def switch_off(home: Path) -> None:
    """kill -9 every process of the host, as a loss of power does; the caller's own comes last."""
    own = psutil.Process()
    while others := [each for each in processes(home) if each != own]:
        for process in others:  # also those that began meanwhile
            with suppress(psutil.Error):
                process.kill()
        time.sleep(_POLL)
    if own in processes(home):
        own.kill()


def freeze(home: Path) -> None:
    """Stop every process of the host where it stands, also those that began meanwhile."""
    while moving := [each for each in processes(home) if not _stands(each)]:
        for each in moving:
            with suppress(psutil.Error):
                each.suspend()
        time.sleep(_POLL)


def thaw(home: Path) -> None:
    """Let every process of the host go on."""
    for each in processes(home):
        with suppress(psutil.Error):
            each.resume()


def _stands(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:  # it has ended
        return True
