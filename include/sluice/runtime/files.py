"""Files that are written as a whole."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Give the file this text in one step, in an existing directory: whoever reads it, a full disk and a kill
    meet the old text or the new one, never a half. `mode`: of a file that holds secrets, 0o600.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.touch(mode=mode)
    temporary.write_text(text)
    temporary.replace(path)
