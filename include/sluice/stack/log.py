"""What a daemon's own log says of it."""

from __future__ import annotations

import sys
import time


class Log:
    """Lines for a daemon's log, each with its time."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, message: str) -> None:
        sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} [{self.name}] {message}\n")
        sys.stdout.flush()
