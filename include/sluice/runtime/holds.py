"""What is held while a disk is nearly full, as files of the instance that every process can read.

A file is there while its hold lasts, and says why. It works on a full disk, too: a file without a word holds,
and to delete one takes no space. Shadows copy the file to where their job runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

#: What the file says of a hold that is over, where it cannot be deleted: on another host.
OVER = "-"
POLL_SECONDS = 1.0


class Hold(StrEnum):
    """What stands still."""

    INTAKE = "intake"  # edges send nothing: lines wait in the front-ends' files
    LAYERS = "layers"  # nothing is counted, archived or computed: lines wait in Kafka


def file_of(home: Path, what: Hold) -> Path:
    """The file that says whether it is held."""
    return home / f"{what}.held"


def reason(home: Path, what: Hold) -> str:
    """Why it is held; empty if it is not."""
    try:
        said = file_of(home, what).read_text()
    except FileNotFoundError:
        return ""
    return "" if said == OVER else said or "a disk is full"


def hold(home: Path, what: Hold, why: str) -> None:
    """Hold it from now on."""
    with suppress(OSError):  # the disk may be full; then the file is there all the same, and empty
        file_of(home, what).write_text(why)


def release(home: Path, what: Hold) -> None:
    """Let it go on."""
    file_of(home, what).unlink(missing_ok=True)


def wait(home: Path, what: Hold, say: Callable[[str], object]) -> None:
    """Return once it is not held; say it when it waits, and when it goes on."""
    said = ""
    while why := reason(home, what):
        if not said:
            say(f"{what} wait for space: {why}")
        said = why
        time.sleep(POLL_SECONDS)
    if said:
        say(f"{what} go on")
