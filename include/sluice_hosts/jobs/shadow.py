"""A shadow: the process here that stands for a job on another host, as HTCondor's does.

It starts the job there or adopts it, and ends when the job does. So whoever supervises processes of this
machine supervises the job: it is adopted after a restart, started again when it died, and stopped with its
shadow. The job's progress is copied to where the job itself would write it here, and what it prints is what
the shadow prints. The job is told the settings that it would read again here, whenever they change, and
whether it is held.

A host that does not answer says nothing of its job. The shadow then goes on: the job is *unknown*. A shadow
that is told to stop meanwhile ends at once; the job is stopped when the host answers (`leftovers`).

The shadow of a successor (`runtime.successor`) says what it knows under the successor's name, until it has
taken the member's place.

A host that has another release of Sluice runs no job. The shadow waits until the host has the platform's. It
does not end, because another shadow could do no more, and a crash loop of one member ends the watch over all.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sluice.collection.errors import AgentError, HostUnreachable
from sluice.collection.machine import ProcessState
from sluice.runtime import holds, successor
from sluice.runtime.holds import Hold
from sluice.runtime.settings import TOLD, Settings, followed, newest
from sluice.stack import jobs, progress
from sluice.stack.progress import progress_file
from sluice_hosts.jobs import job_state
from sluice_hosts.jobs.far import FarJob
from sluice_hosts.jobs.job_state import FarState, JobState
from sluice_hosts.links import release
from sluice_hosts.links.release import ReleaseError
from sluice_hosts.trust.broker import BrokerError

POLL_SECONDS = 2.0
#: Between two looks at a host that has another release, because all its files are read.
RELEASE_SECONDS = 30.0
#: Of what the job prints, so much at most is copied at each look.
_PIECE = 256 << 10

Log = Callable[[str], None]


class Shadow:
    """Stands for one member of a job on one host, until `stop` is set or the job ends."""

    def __init__(
        self, settings: Settings, member: str, host: str, job: FarJob, stop: threading.Event
    ) -> None:
        self._settings, self._member, self._host, self._job = settings, member, host, job
        self._stop = stop
        self._state: FarState | None = None
        self._said: tuple[str, FarState | None] = "", None  # under which name
        self._copied = "", b""  # so, too
        self._printed, self._told = 0, dict[str, str]()
        self._answers = True

    def run(self, arguments: Sequence[str], log: Log) -> int:
        """Returns 0 if it was told to stop, and 1 if another shadow is to go on. Raises AgentError.

        That is when the job ended by itself, when its host was enrolled again, with another address or
        folder of Sluice, and when the platform here has changed while the host had another release.
        """
        started = False
        self._say(JobState.STARTS)
        while not self._stop.is_set():
            pause = POLL_SECONDS
            try:
                self._tell()
                if not started:
                    begins = self._job.start(arguments, log)
                    self._printed, started = 0 if begins else self._job.length(), True
                now = self._job.status()
                self._copy(now.pid)
                self._answers = True
            except HostUnreachable as error:
                self._answers = False
                self._say(JobState.UNKNOWN, why=str(error))
                if self._job.enrolled_again():
                    log(f"{self._member}: {self._host} was enrolled again: the next shadow asks it there")
                    return 1
            except BrokerError as error:  # Kafka is told of the host soon
                self._say(JobState.STARTS, why=str(error))
            except ReleaseError as error:
                self._answers = True
                self._say(JobState.STOPPED, why=str(error))
                if release.outdated(self._settings.root) or self._job.enrolled_again():
                    log(f"{self._member}: other files are to be compared now: the next shadow does that")
                    return 1
                pause = RELEASE_SECONDS
            else:
                if now.state != ProcessState.ALIVE:
                    log(f"{self._member}: it has ended on {self._host}")
                    return 1
                self._say(JobState.ALIVE, now.pid)
            self._stop.wait(pause)
        self._end(log)
        return 0

    def _end(self, log: Log) -> None:
        if self._state and self._state.state == JobState.STOPPED:
            return
        try:
            if not self._answers:
                raise HostUnreachable(self._state.why if self._state else self._host)
            self._job.stop()
            self._copy(self._state.pid if self._state else 0)
            log(f"{self._member}: stopped on {self._host}")
        except (HostUnreachable, AgentError) as error:
            log(f"{self._member}: may still run on {self._host}, and is stopped when that answers: {error}")

    def _tell(self) -> None:
        """Tell the job what it follows, if that changed: settings, and whether a disk here is nearly full."""
        held = holds.file_of(self._settings.home, Hold.LAYERS).name
        now = {
            TOLD: followed(newest(self._settings)),
            held: holds.reason(self._settings.home, Hold.LAYERS) or holds.OVER,
        }
        for name, text in now.items():
            if text != self._told.get(name):
                self._job.tell(name, text)
                self._told[name] = text

    def _copy(self, pid: int) -> None:
        """Bring here what the job printed, and its progress. pid: of the job's process, on its host."""
        printed = self._job.printed(self._printed, _PIECE)
        self._printed += len(printed)
        sys.stdout.write(printed.decode(errors="replace"))
        sys.stdout.flush()
        name, found = self._name, self._job.progress()
        if (name, found) == self._copied:
            return
        self._copied = name, found
        # It may be half of one, or none of ours, and the disk may be full.
        with contextlib.suppress(ValueError, OSError):
            said = progress.parse(found, jobs.KINDS[jobs.job_of(self._member)])
            if said.pid != pid:  # it is that of the process before, which nobody must take for this one's
                return
            # The clock of the host may be another one, and readers ask how old the document is.
            said.updated_at = datetime.now(UTC)
            progress.write(progress_file(self._settings, name), said)

    def _say(self, what: JobState, pid: int = 0, why: str = "") -> None:
        name = self._name
        self._state = FarState(self._host, what, os.getpid(), pid, why)
        if self._said == (name, self._state):
            return
        job_state.write(self._settings, name, self._state)
        before, _ = self._said
        if before not in ("", name):  # it has become the member
            job_state.forget(self._settings, before)
            progress_file(self._settings, before).unlink(missing_ok=True)
        self._said = name, self._state

    @property
    def _name(self) -> str:
        waits = successor.waits(self._member, self._settings.home / "run")
        return successor.name_of(self._member) if waits else self._member


def stopped_by_signal() -> threading.Event:
    """An event that SIGTERM and SIGINT set."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
