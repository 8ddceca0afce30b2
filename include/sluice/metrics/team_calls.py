"""Asks a team's code in processes of its own, within a bound of time and of memory.

A metric that hangs, exits, crashes or takes memory without end takes its own process with it, and no other:
the process is killed, and whoever asked gets TeamCodeFailed, as if the metric had raised. A process keeps no
state, so nothing is lost with it, and nothing is added twice.

Only what fails in a new process is the metric's fault. A process that was asked before may have been killed
by somebody, or others may have left it little (memory, open files, another folder), so after any failure it
is ended, and a new one is asked once more. A machine that gives no process is no fault of a metric.

Processes start when a metric of the team is first asked. One that is idle is asked again: threads that ask at
the same time have one each. They end with the process that started them.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from sluice.metrics.team_code import TeamCodeFailed, to_ipc
from sluice.metrics.team_messages import BadMessage, Head, Late, TimedSocket, receive, send
from sluice.runtime.backoff import patient
from sluice.runtime.settings import metrics_settings

log = logging.getLogger(__name__)

#: Idle processes that are kept; each has about 80 MB.
MOST_IDLE = 4
#: A process that has not started after this is replaced; the machine is overloaded, or lacks the package.
START_SECONDS = 120.0
#: No process is started after so many seconds of failures, and the pauses between them.
START_PATIENCE, FIRST_PAUSE, LONGEST_PAUSE = 240.0, 0.5, 15.0


class TeamProcessUnavailable(RuntimeError):
    """The machine gives the team's metrics no process: no metric, and so no task, is at fault."""


class TeamProcessLost(TeamCodeFailed):
    """A team's code did not end, or its process did."""


class _ProcessEnded(Exception):
    """The process ended, or is as good as ended; the text says how."""


class _NotAsked(_ProcessEnded):
    """It ended before it had all that it is asked, so before it ran anything of the team's."""


@dataclass(frozen=True)
class TeamFile:
    """A file of a team's metrics."""

    name: str
    source: str

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.name}\0{self.source}".encode()).hexdigest()[:32]


class _TeamProcess:
    """One process (`team_process`)."""

    def __init__(self) -> None:
        """Raises OSError if the machine starts none, _ProcessEnded."""
        limits = metrics_settings()
        self.seconds, self.memory = limits.seconds, limits.memory_bytes
        self._loaded: set[str] = set()
        self._asked, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = self._start(theirs.fileno())
        except BaseException:
            self._asked.close()
            raise
        try:
            self._ready()
        except BaseException:
            self.end()
            raise

    def ask(self, file: TeamFile, ask: Head, data: pa.Buffer) -> tuple[Head, bytearray]:
        """The answer. Raises TeamCodeFailed if it is an error or does not come in time, _ProcessEnded."""
        failed, late = f"failed in {ask['do']}", f"within {self.seconds:g} s (metrics.seconds)"
        known = ask["do"] != "load" and file.digest in self._loaded
        ask = {**ask, "file": file.name, "digest": file.digest, "source": None if known else file.source}
        within = TimedSocket(self._asked, self.seconds)
        try:
            send(within, ask, data)
        except Late as error:
            raise _NotAsked(f"{failed}: its process did not take what it was asked {late}") from error
        except OSError as error:
            raise _NotAsked(f"{failed}: {self._ended()}") from error
        try:
            answer, found = receive(within, self.memory)
        except Late as error:
            raise TeamProcessLost(f"{failed}: it did not end {late}") from error
        except BadMessage as error:
            raise _ProcessEnded(f"{failed}: its process did not answer properly: {error}") from error
        except (EOFError, OSError) as error:
            raise _ProcessEnded(f"{failed}: {self._ended()}") from error
        if lacked := answer.get("memory"):
            raise _ProcessEnded(f"{failed}: {self._lacked(lacked, data.size)}")
        if said := answer.get("error"):
            raise TeamCodeFailed(said)
        self._loaded.add(file.digest)
        return answer, found

    def end(self) -> None:
        self._asked.close()
        self._process.kill()
        self._process.wait()

    def forget(self) -> None:
        """In a process that was forked: it belongs to the one that forked."""
        self._asked.close()
        self._process.returncode = 0

    def _start(self, descriptor: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "sluice.metrics.team_process", str(descriptor)]
        return subprocess.Popen(
            [*command, str(self.memory), str(self.seconds)],
            stdin=subprocess.DEVNULL,
            pass_fds=[descriptor],
            # One thread and one arena each: threads that nobody uses would take the metric's memory.
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ARROW_DEFAULT_MEMORY_POOL": "system"}
            | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
        )

    def _ready(self) -> None:
        """Wait until it answers; from then on time is the metric's. Raises _ProcessEnded."""
        try:
            receive(TimedSocket(self._asked, START_SECONDS))
        except Late as error:
            raise _ProcessEnded(f"it was not ready after {START_SECONDS:g} s") from error
        except (EOFError, OSError) as error:
            raise _ProcessEnded(f"{self._ended()}; the log has what it printed") from error

    def _lacked(self, where: str, size: int) -> str:
        bound = f"{self.memory >> 20} MiB of memory (metrics.memory_bytes)"
        if where == "used":
            return f"it took more than {bound}"
        return (
            f"what it was asked, {size / (1 << 20):,.0f} MiB, does not fit into {bound}: raise the setting, "
            "or let the task measure less, by a filter or a shorter text"
        )

    def _ended(self) -> str:
        try:
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "it closed the socket of its process"
        if code >= 0:
            return f"it ended its process with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process ended by {name}"


def _started() -> _TeamProcess:
    """A new process that is ready. Raises TeamProcessUnavailable."""
    faults = (OSError, MemoryError, _ProcessEnded)

    def start() -> _TeamProcess:
        try:
            return _TeamProcess()
        except faults as error:
            log.warning("a process for the team's metrics did not start: %s", error)
            raise

    def passing(error: BaseException) -> bool:
        return isinstance(error, faults)

    try:
        return patient(START_PATIENCE, passing, first=FIRST_PAUSE, longest=LONGEST_PAUSE)(start)
    except faults as error:
        raise TeamProcessUnavailable(
            f"no process for the team's metrics started within {START_PATIENCE:g} s: {error}. This "
            "machine lacks memory, processes, open files or time for it: look what takes them"
        ) from error


class TeamProcesses:
    """The processes of this process."""

    def __init__(self) -> None:
        self._lock, self._idle = threading.Lock(), list[_TeamProcess]()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)

    def ask(self, file: TeamFile, ask: Head, table: pa.Table | None = None) -> tuple[Any, pa.Table]:
        """What a process answers: for ``load`` the metrics, else a table.

        Raises TeamCodeFailed, TeamProcessUnavailable.
        """
        data = pa.py_buffer(b"") if table is None else to_ipc(table)
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        try:
            answer, found = self._once(idle or _started(), file, ask, data)
        except (TeamCodeFailed, _ProcessEnded) as error:
            if idle is None and isinstance(error, TeamCodeFailed):
                raise
            log.warning("%s: %s; a new process is asked", file.name, error)
            answer, found = self._last(file, ask, data)
        return answer.get("metrics"), pa.ipc.open_stream(found).read_all() if found else pa.table({})

    def end(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _last(self, file: TeamFile, ask: Head, data: pa.Buffer) -> tuple[Head, bytearray]:
        """The answer of a new process. Raises as `ask` does."""
        try:
            return self._once(_started(), file, ask, data)
        except _NotAsked as error:
            raise TeamProcessUnavailable(
                f"{file.name} {error}: look what takes this machine's time"
            ) from error
        except _ProcessEnded as error:
            raise TeamProcessLost(str(error)) from error

    def _once(
        self, process: _TeamProcess, file: TeamFile, ask: Head, data: pa.Buffer
    ) -> tuple[Head, bytearray]:
        try:
            found = process.ask(file, ask, data)
        except BaseException:  # nobody knows what it does now, or what the failure left
            process.end()
            raise
        with self._lock:
            keep = len(self._idle) < MOST_IDLE
            if keep:
                self._idle.append(process)
        if not keep:
            process.end()
        return found

    def _forked(self) -> None:
        for process in self._idle:
            process.forget()
        self._lock, self._idle = threading.Lock(), []


PROCESSES = TeamProcesses()
