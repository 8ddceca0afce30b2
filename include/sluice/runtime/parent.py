"""A process and its parent."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)


def end_with_parent(parent: int | None = None, how: signal.Signals = signal.SIGTERM) -> None:
    """End this process with its supervisor, or daemons of a killed one would keep their ports.

    ``parent``: the supervisor's pid, if it is known; if the supervisor is gone already, end at once. ``how``:
    the signal that the kernel sends.
    """
    _libc.prctl(PR_SET_PDEATHSIG, how)
    if parent is not None and os.getppid() != parent:
        os._exit(1)
