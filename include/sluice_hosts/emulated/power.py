"""The processes of an emulated host, which carry its home in their environment.

They lose their power, or stand still, all at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
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
    _each(home, psutil.Process.kill, own.__eq__)
    if own in processes(home):
        own.kill()


def freeze(home: Path) -> None:
    """Stop every process of the host where it stands."""
    _each(home, psutil.Process.suspend, _stands)


def thaw(home: Path) -> None:
    """Let every process of the host go on."""
    for each in processes(home):
        with suppress(psutil.Error):
            each.resume()


def _each(home: Path, act: Callable[[psutil.Process], None], done: Callable[[psutil.Process], bool]) -> None:
    """Act on every process of the host until all are gone or done, also on those that began meanwhile."""
    while left := [each for each in processes(home) if not done(each)]:
        for each in left:
            with suppress(psutil.Error):
                act(each)
        time.sleep(_POLL)


def _stands(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.Error:  # it has ended
        return True
