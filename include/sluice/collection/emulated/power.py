"""The processes of an emulated host, which carry its home in their environment, and the end of its power."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

#: Variables of every process of a host: its home, and the address that is its 127.0.0.1.
HOME, LOOPBACK = "EMULATED_HOST", "EMULATED_LOOPBACK"


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
    """kill -9 every process of the host at once, as a loss of power does; the caller's own comes last."""
    own = psutil.Process()
    for process in sorted(processes(home), key=lambda each: each == own):
        with suppress(psutil.Error):
            process.kill()
