"""What the laboratory's processes have in common: how they end, and how it says that one failed."""

from __future__ import annotations

import ctypes
import signal

from sluice.runtime.parent import PR_SET_PDEATHSIG

_libc = ctypes.CDLL(None)


class LaboratoryFailed(RuntimeError):
    """A process of the laboratory did not do what it must; the message ends with what it said."""


def end_with_laboratory() -> None:
    """To be called in a process before its program begins: end with the laboratory, whatever ends that.

    A consumer may stand still (SIGSTOP), so only SIGKILL ends all of them. They keep nothing. It calls the
    kernel and nothing else, so it is safe beside other threads.
    """
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
