"""What the laboratory's processes have in common: how they end, and how it says that one failed."""

from __future__ import annotations

import functools
import signal

from sluice.runtime.parent import end_with_parent

#: For a process before its program begins: it ends with the laboratory, whatever ends that. A consumer may
#: stand still (SIGSTOP), so only SIGKILL ends all of them. They keep nothing.
end_with_laboratory = functools.partial(end_with_parent, how=signal.SIGKILL)


class LaboratoryFailed(RuntimeError):
    """A process of the laboratory did not do what it must; the message ends with what it said."""
