"""How much of a file's end is not on the disk yet, as the kernel says (cachestat(2), Linux 6.5)."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_CACHESTAT = 451  # the number of the system call, on all architectures
_PAGE = os.sysconf("SC_PAGESIZE")
_RANGE, _STATISTICS = "QQ", "5Q"  # offset and length; cached, dirty, being written, evicted, evicted lately

_libc = ctypes.CDLL(None, use_errno=True)


class NoCachestat(RuntimeError):
    """The kernel does not say which pages of a file are not on the disk."""


def why_not(folder: Path) -> str:
    """Why a power cut cannot be imitated here; empty if it can."""
    probe = folder / ".chaos-probe"
    try:
        probe.write_bytes(b"x")
        with probe.open("rb") as file:
            _unsynced_pages(file.fileno(), 0, 1)
    except (OSError, NoCachestat) as error:
        return f"the kernel does not say which bytes are on the disk ({error}); that takes Linux 6.5"
    finally:
        probe.unlink(missing_ok=True)
    return ""


def unsynced_tail(path: Path, most: int) -> int:
    """How many bytes at the end of the file, at most so many, lie in pages that are not on the disk.

    A page counts until it was written, as a disk may lose what it is just writing. The first such page does
    not: it may begin with bytes that were synced before more came to it, and these are on the disk. Raises
    NoCachestat.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        begin = size
        while begin > max(0, size - most - _PAGE):
            page = (begin - 1) // _PAGE * _PAGE
            if not _unsynced_pages(file.fileno(), page, _PAGE):
                break
            begin = page
        return min(most, max(0, size - begin - _PAGE))


def cut(path: Path, wanted: int) -> int:
    """Take so many bytes from the file's end, or as many as are not on the disk; returns how many."""
    taken = unsynced_tail(path, wanted)
    if taken:
        os.truncate(path, path.stat().st_size - taken)
    return taken


def _unsynced_pages(handle: int, offset: int, length: int) -> int:
    asked = ctypes.create_string_buffer(struct.pack(_RANGE, offset, length))
    answer = ctypes.create_string_buffer(struct.calcsize(_STATISTICS))
    if _libc.syscall(ctypes.c_long(_CACHESTAT), handle, asked, answer, 0) != 0:
        raise NoCachestat(os.strerror(ctypes.get_errno()))
    _, dirty, being_written, _, _ = struct.unpack(_STATISTICS, answer.raw)
    return int(dirty + being_written)
