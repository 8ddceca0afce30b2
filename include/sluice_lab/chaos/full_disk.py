"""Fills a store's disk, and empties it again: a file is allocated that takes what is free.

The file system counts it, and the image that it lies in takes next to no space for it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice_lab.chaos.file_systems import FOLDERS

FILL = "filled-by-chaos"
#: Sizes of what fills a disk: the rest that a large piece leaves is filled by smaller ones.
PIECES = (1 << 30, 64 << 20, 1 << 20, 4 << 10)


@contextmanager
def filling(settings: Settings, name: str) -> Iterator[Callable[[int], None]]:
    """Gives what fills the store's disk until so many bytes are left; all is free again after the block."""
    path = settings.home / FOLDERS[name] / FILL
    try:
        yield lambda left: fill(path, left)
    finally:
        path.unlink(missing_ok=True)


def nearly(settings: Settings, name: str) -> int:
    """So many bytes are left when the store's disk is below its reserve, and above all other levels."""
    (disk,) = (each for each in disks.look(settings) if FOLDERS[name] in each.folders)
    return disk.reserve * 3 // 4


def fill(path: Path, left: int = 0) -> None:
    """Let the file grow until about so many bytes are free."""
    with path.open("ab") as file:
        for piece in PIECES:
            with suppress(_NoSpace):
                while not left or _free(path) - piece >= left:
                    _allocate(file.fileno(), piece)


class _NoSpace(Exception):
    """The piece does not fit any more."""


def _allocate(handle: int, size: int) -> None:
    try:
        os.posix_fallocate(handle, os.fstat(handle).st_size, size)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _NoSpace from None
        raise


def _free(path: Path) -> int:
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize
