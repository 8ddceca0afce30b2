"""On SIGUSR1 a process writes where each of its threads is, and goes on (docs/runbook.md).

Python's own `faulthandler` reads the frames of other threads while they run; it ended an archiver. This
handler runs as Python code does, so it waits while the main thread is in a call into C.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from contextlib import suppress

STDERR = 2


def dump_on_signal() -> None:
    """Let SIGUSR1 write the threads to stderr. To be called in the main thread."""
    signal.signal(signal.SIGUSR1, lambda *_: _write(threads()))


def threads() -> str:
    """Each thread's name and calls, as a traceback shows them."""
    names = {each.ident: each.name for each in threading.enumerate()}
    return "\n".join(
        f"Thread {names.get(ident, ident)} (most recent call last):\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )


def _write(text: str) -> None:
    """Past sys.stderr, because the signal may come while the main thread writes to it."""
    with suppress(OSError):
        os.write(STDERR, text.encode(errors="backslashreplace"))
