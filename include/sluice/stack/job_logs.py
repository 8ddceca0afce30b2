"""Keeps the logs of jobs small that run for ever: the supervisor turns those of daemons, and nobody these.

A job is started with its log open, and puts a large one aside only when it starts. So its log is copied and
emptied under it. It writes at the end of the file, wherever that is. What it writes between the copy and the
emptying, some microseconds, is lost; a log is no book.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from sluice.runtime.detached import LOG_BYTES, LOGS_KEPT
from sluice.runtime.settings import Settings

#: A larger one is turned. The supervisor turns daemons' logs at LOG_BYTES, so they never have so much.
MOST_BYTES = 2 * LOG_BYTES


def turn_all(settings: Settings) -> list[Path]:
    """Turn each log of the instance that is too large; returns which."""
    return list(_turned(settings.home / "logs"))


def _turned(folder: Path) -> Iterator[Path]:
    for log in sorted(folder.glob("*.log")):
        if not log.is_symlink() and log.stat().st_size > MOST_BYTES:
            turn(log)
            yield log


def turn(log: Path) -> None:
    """Put the log's end aside as `.1`, and those before one further; the log is empty then."""
    for number in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{number}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{number + 1}"))
    aside = log.with_name(f".{log.name}.aside")
    with log.open("rb") as source, aside.open("wb") as target:
        os.fchmod(target.fileno(), log.stat().st_mode & 0o777)
        source.seek(max(0, log.stat().st_size - MOST_BYTES))
        shutil.copyfileobj(source, target)
    os.truncate(log, 0)
    aside.replace(log.with_name(f"{log.name}.1"))
