"""Writing files as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Replace the file's text in one step. The directory must exist.

    A reader finds the old text or the new one, never half of it, even after a full disk or a kill. `mode`:
    0o600 for a file that holds secrets.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.touch(mode=mode)
    temporary.write_text(text)
    temporary.replace(path)
