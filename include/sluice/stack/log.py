"""A daemon's log: what it says, and the end of it."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from sluice.runtime.settings import Settings

LINES = 20
#: How far back the reason of an end is looked for: HBase writes this much as it starts again.
END_BYTES = 256 << 10
#: What a JVM says before it ends, as `runtime.jvm` has it.
_OUT_OF_MEMORY = re.compile(rb"java\.lang\.OutOfMemoryError: ([A-Za-z ]{1,60})")


class DaemonLog:
    """Lines for a daemon's log, each with its time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, message: str) -> None:
        sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{self.name}] {message}\n")
        sys.stdout.flush()


def log_file(settings: Settings, name: str) -> Path:
    return settings.home / "logs" / f"{name}.log"


def log_tail(settings: Settings, name: str, lines: int = LINES) -> list[str]:
    """The last lines of a daemon's or a job's log; none if it never wrote one."""
    return _end(log_file(settings, name), 400 * lines).decode(errors="replace").splitlines()[-lines:]


def lack_of_memory(settings: Settings, name: str) -> str | None:
    """What a daemon's JVM lacked when it ended a short while ago, such as "Java heap space"."""
    found = _OUT_OF_MEMORY.findall(_end(log_file(settings, name), END_BYTES))
    return found[-1].decode().strip() if found else None


def _end(path: Path, size: int) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - size))
        return log.read()
