"""Writing files as a whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o666, *, durable: bool = True) -> None:
    """Replace the file's text in one step. The directory must exist.

    A reader finds the old text or the new one, never half of it, even after a full disk, a kill or a power
    cut. `mode`: 0o600 for a file that holds secrets. `durable`: once this returns, a power cut does not take
    the new text; not needed for what is written again within seconds.
    """
    write_bytes(path, text.encode(), mode, durable=durable)


def write_bytes(path: Path, data: bytes, mode: int = 0o666, *, durable: bool = True) -> None:
    """Replace the file's bytes in one step, as `write_whole` does."""
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}")
    temporary.unlink(missing_ok=True)  # what a killed process left
    # Exclusively, because another user may own the directory, and could put a link to anything here.
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
        if durable:
            out.flush()
            os.fsync(out.fileno())
    temporary.replace(path)
    if durable:
        settle(path.parent)


def settle(path: Path) -> None:
    """Return once what was written to a file, or the names in a directory, outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
