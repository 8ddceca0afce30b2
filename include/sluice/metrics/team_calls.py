"""Asks a team's code in processes of its own, within a bound of time and of memory.

A metric that hangs, exits, crashes or takes memory without end takes its own process with it, and no other:
the process is killed, and whoever asked gets TeamCodeFailed, as if the metric had raised. A process that died
is replaced and asked once more, for others may have left it little memory, or somebody killed it. A process
keeps no state, so nothing is lost with it, and nothing is added twice.

Processes start when a metric of the team is first asked. One that is idle is asked again: threads that ask at
the same time have one each. They end with the process that started them.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Pipe
from typing import Any

import pyarrow as pa

from sluice.metrics.team_code import TeamCodeFailed, to_ipc
from sluice.runtime.settings import metrics_settings

#: Idle processes that are kept; each has about 80 MB.
MOST_IDLE = 4
#: A process that has not started after this is given up; the machine is overloaded, or lacks the package.
START_SECONDS = 120.0
#: Time passes in steps, so that a stop of both processes is no time of the metric's.
STEP_SECONDS = 0.5


class TeamProcessLost(TeamCodeFailed):
    """A team's code did not end, or its process did."""


class _ProcessEnded(Exception):
    """The process ended, or is as good as ended; the text says how."""


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
        limits = metrics_settings()
        self.seconds, self.memory = limits.seconds, limits.memory_bytes
        self._asked, theirs = Pipe()
        self._loaded: set[str] = set()
        command = [sys.executable, "-P", "-m", "sluice.metrics.team_process", str(theirs.fileno())]
        self._process = subprocess.Popen(
            [*command, str(self.memory), str(self.seconds)],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            # One thread and one arena each: threads that nobody uses would take the metric's memory.
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "ARROW_DEFAULT_MEMORY_POOL": "system"}
            | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"},
        )
        theirs.close()
        self._started = False

    def ask(self, file: TeamFile, ask: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        """The answer. Raises TeamCodeFailed if it does not come in time, _ProcessEnded."""
        known = ask["do"] != "load" and file.digest in self._loaded
        ask = {**ask, "file": file.name, "digest": file.digest, "source": None if known else file.source}
        try:
            if not self._started:
                if not self._asked.poll(START_SECONDS):
                    raise _ProcessEnded("a process for the team's metrics did not start")
                self._asked.recv_bytes()
                self._started = True
            self._asked.send_bytes(json.dumps(ask).encode())
            self._asked.send_bytes(data)
            if not self._wait():
                raise TeamProcessLost(
                    f"failed in {ask['do']}: it did not end within {self.seconds:g} s (metrics.seconds)"
                )
            answer, found = json.loads(self._asked.recv_bytes()), self._asked.recv_bytes()
        except (EOFError, OSError) as error:
            raise _ProcessEnded(f"failed in {ask['do']}: {self._ended()}") from error
        if answer.get("memory"):
            said = f"it took more than {self.memory >> 20} MiB of memory (metrics.memory_bytes)"
            raise _ProcessEnded(f"failed in {ask['do']}: {said}")
        if "error" not in answer:
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

    def _wait(self) -> bool:
        left = self.seconds
        while left > 0:
            began = time.monotonic()
            if self._asked.poll(min(left, STEP_SECONDS)):
                return True
            left -= min(time.monotonic() - began, 2 * STEP_SECONDS)
        return False

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


class TeamProcesses:
    """The processes of this process."""

    def __init__(self) -> None:
        self._lock, self._idle = threading.Lock(), list[_TeamProcess]()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.end)

    def ask(self, file: TeamFile, ask: dict[str, Any], table: pa.Table | None = None) -> tuple[Any, pa.Table]:
        """What a process answers: for ``load`` the metrics, else a table. Raises TeamCodeFailed."""
        data = b"" if table is None else to_ipc(table)
        try:
            answer, found = self._once(file, ask, data)
        except _ProcessEnded:
            try:
                answer, found = self._once(file, ask, data)
            except _ProcessEnded as error:
                raise TeamProcessLost(str(error)) from error
        if failed := answer.get("error"):
            raise TeamCodeFailed(failed)
        return answer.get("metrics"), pa.ipc.open_stream(found).read_all() if found else pa.table({})

    def end(self) -> None:
        """End those that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            process.end()

    def _once(self, file: TeamFile, ask: dict[str, Any], data: bytes) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        process = process or _TeamProcess()
        try:
            found = process.ask(file, ask, data)
        except BaseException:  # nobody knows what it does now
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
