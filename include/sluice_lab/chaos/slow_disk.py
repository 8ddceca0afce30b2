"""Makes a disk slow: its file system takes no write most of the time.

Who writes waits in the kernel until it does again, as with a disk that hangs; the process lives, and its
other threads answer. Freezing also brings to the disk what was written before (ioctl_fsfreeze(2)).
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

#: Of each period the file system is frozen for this long.
PERIOD_SECONDS, FROZEN_SECONDS = 1.0, 0.8
#: linux/fs.h
FIFREEZE, FITHAW = 0xC0045877, 0xC0045878


@contextmanager
def slow(folder: Path) -> Iterator[None]:
    """The file system of the folder is slow while the block lasts. Raises OSError if it cannot be frozen."""
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        frozen = pool.submit(_stutter, folder, over)
        try:
            yield
        finally:
            over.set()
        frozen.result()


def _stutter(folder: Path, over: Event) -> None:
    while not over.is_set():
        _control(folder, FIFREEZE)
        try:
            over.wait(FROZEN_SECONDS)
        finally:
            thaw(folder)
        over.wait(PERIOD_SECONDS - FROZEN_SECONDS)


def thaw(folder: Path) -> None:
    """Let the file system take writes; nothing happens if it does."""
    try:
        _control(folder, FITHAW)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it was not frozen
            raise


def _control(folder: Path, request: int) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(handle, request, 0)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), str(folder)) from None
    finally:
        os.close(handle)
