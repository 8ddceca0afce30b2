"""What a shadow knows of its job: ``<home>/elsewhere/<member>.json``, written at each change."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from sluice.runtime import successor
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings


class JobState(StrEnum):
    """What is known of a job."""

    STARTS = "starts"  # its host was not yet seen to run it
    ALIVE = "alive"  # it runs
    STOPPED = "stopped"  # it does not run: it was stopped, or its host has another release
    UNKNOWN = "unknown"  # its host does not answer, so it may run or not
    DEAD = "dead"  # its process here, or its shadow, has ended; no shadow says this


@dataclass(frozen=True)
class FarState:
    """What a shadow knows of its job. pid: the job's, on its host; 0: none."""

    host: str
    state: JobState
    shadow: int  # the pid of who says so
    pid: int = 0
    why: str = ""


def write(settings: Settings, member: str, state: FarState) -> None:
    path = _path(settings, member)
    path.parent.mkdir(exist_ok=True)
    write_whole(path, json.dumps(asdict(state)))


def read(settings: Settings, member: str, shadow: int) -> FarState | None:
    """What the living shadow of that pid says; None if it has not said anything.

    What it said last as the member's successor counts, too.
    """
    for name in (member, successor.name_of(member)):
        with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
            said = json.loads(_path(settings, name).read_text())
            found = FarState(**{**said, "state": JobState(said["state"])})
            if found.shadow == shadow:
                return found
    return None


def age(settings: Settings, member: str) -> float:
    """Since when the shadow has said nothing else, in seconds. Raises FileNotFoundError."""
    return time.time() - _path(settings, member).stat().st_mtime


def known(settings: Settings, member: str) -> bool:
    """Whether a shadow ever stood here for the member or its successor, so another host may still run it."""
    return any(_path(settings, name).exists() for name in (member, successor.name_of(member)))


def forget(settings: Settings, member: str) -> None:
    """Remove what was written of the member."""
    _path(settings, member).unlink(missing_ok=True)


def _path(settings: Settings, member: str) -> Path:
    return settings.home / "elsewhere" / f"{member}.json"
