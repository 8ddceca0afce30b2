"""Writing files as a whole."""

from __future__ import annotations

import os
import threading
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace the file's text in one step. The directory must exist.

    A reader finds the old text or the new one, never half of it, even after a full disk or a kill. `mode`:
    0o600 for a file that holds secrets.
    """
    write_bytes(path, text.encode(), mode)


def write_bytes(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace the file's bytes in one step, as `write_whole` does."""
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}")
    temporary.unlink(missing_ok=True)  # what a killed process left
    # Exclusively, because another user may own the directory, and could put a link to anything here.
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(data)
    temporary.replace(path)
