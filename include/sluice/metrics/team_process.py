"""The process that runs a team's metrics: ``python -m sluice.metrics.team_process DESCRIPTOR BYTES SECONDS``.

It answers one ask after the other over a socket (`team_calls` asks), and keeps nothing but the files that it
loaded: states come with each ask. So it may be killed at any time. Its memory is bounded, and so is how long
it outlives whoever asked while the team's code does not end.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from sluice.metrics.team_code import (
    ASKS,
    BadMetric,
    TeamCodeFailed,
    defined,
    described,
    from_ipc,
    to_ipc,
)
from sluice.metrics.team_messages import receive, send
from sluice.metrics.user import UserMetric

#: Whoever asked kills a process in time. If it is gone, the process ends this much later: it must not end
#: because both were stopped for a while.
GRACE_SECONDS = 300.0

Answer = dict[str, Any]
NOTHING = pa.py_buffer(b"")


class TeamCode:
    """The files that were loaded, and what is asked of their metrics."""

    def __init__(self) -> None:
        self._loaded: dict[str, dict[str, UserMetric[Any]]] = {}  # by the file's digest

    def answer(self, ask: Answer, data: bytearray) -> tuple[Answer, pa.Buffer]:
        """What is answered: `error` says why the team's code failed; `memory`, that it had too little."""
        try:
            if ask["do"] == "load":
                return {"metrics": self._load(ask)}, NOTHING
            if ask["digest"] not in self._loaded:
                self._load(ask)
            metric = self._loaded[ask["digest"]][ask["metric"]]
            found = ASKS[ask["do"]](metric, from_ipc(data))
            return {}, to_ipc(found if isinstance(found, pa.Table) else pa.table({"found": found}))
        except MemoryError:
            return {"memory": "used"}, NOTHING
        except TeamCodeFailed as error:
            return {"error": str(error)}, NOTHING
        except Exception as error:  # what the team's code left, e.g. too many open files
            return {"error": f"failed in {ask['do']}: {type(error).__name__}: {error}"}, NOTHING

    def _load(self, ask: Answer) -> list[Answer]:
        try:
            metrics = defined(ask["file"], ask["source"])
            found = [asdict(each) for each in described(metrics)]
        except MemoryError:
            raise
        except BadMetric as error:
            raise TeamCodeFailed(str(error)) from error
        except BaseException as error:
            said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise TeamCodeFailed(said) from error
        self._loaded[ask["digest"]] = {metric.name: metric for metric in metrics}
        return found


def bound_memory(most: int) -> None:
    """Let this process have `most` bytes more than it has."""
    with open("/proc/self/statm") as statm:
        own = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (own + most, own + most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def serve(asking: socket.socket, seconds: float) -> None:
    """Answer until whoever asks is gone."""
    code = TeamCode()
    try:
        send(asking, {})  # it is ready
        while True:
            _answer(asking, code, seconds)
    except (EOFError, OSError):
        return


def _answer(asking: socket.socket, code: TeamCode, seconds: float) -> None:
    """Answer once; nothing of it takes memory afterwards."""
    try:
        ask, data = receive(asking)
    except MemoryError:
        send(asking, {"memory": "asked"})
        return
    # By the kernel's default action, which team code that holds the interpreter cannot put off.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + GRACE_SECONDS)
    answer, found = code.answer(ask, data)
    signal.setitimer(signal.ITIMER_REAL, 0)
    send(asking, answer, found)


def main() -> None:
    descriptor, memory, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    pa.set_cpu_count(1)
    os.dup2(2, 1)  # what the team's code prints belongs into the log
    with socket.socket(fileno=descriptor) as asking:
        bound_memory(memory)
        serve(asking, seconds)


if __name__ == "__main__":
    main()
