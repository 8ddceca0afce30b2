"""The process that takes another one's place: it is started before that one stops.

A process that takes long to start would leave its work undone meanwhile. So its successor starts beside it,
does whatever it can do beside it, and takes its place when it is ready. Until then it is recorded under a
name of its own, ``next.<name>``, by which any supervisor finds it again. At each moment one of these is true:

- there is a process, or none: it is adopted or started, as ever;
- there is a process and a successor: the successor is awaited, or stopped if it is not wanted any more;
- there is a successor alone: it takes the place of the process, ready or not;
- both records are of one process, as it took the place and the supervisor died: the second one is removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from sluice.runtime import detached
from sluice.runtime.backoff import Backoff
from sluice.runtime.detached import Record

#: In the environment of a process that was started as a successor.
SUCCESSOR = "SLUICE_SUCCESSOR"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
STOP_GRACE = 15.0  # less than the 30 s that Airflow's triggerer gives to on_kill


def name_of(name: str) -> str:
    """The name of the successor of the process of that name."""
    return f"next.{name}"


def succeeds() -> bool:
    """Whether this process was started as a successor."""
    return SUCCESSOR in os.environ


class Turn:
    """Whose turn it is to say how a process does: its own, until it ends, and then its successor's.

    lock: the path of a lock, which a process that once had it keeps.
    """

    def __init__(self, lock: Path) -> None:
        self._lock = FileLock(lock, thread_local=False)

    @property
    def mine(self) -> bool:
        """Whether it is this process's turn."""
        with suppress(Timeout):
            if not self._lock.is_locked:
                self._lock.acquire(timeout=0)
        return self._lock.is_locked

    def over(self) -> None:
        """Leave the turn to the next process."""
        self._lock.release()


@dataclass(frozen=True)
class Overlap:
    """When a process and its successor run side by side.

    works: whether the process works, so that it is worth the wait. ready: whether the successor can take its
    place.
    """

    works: Callable[[], bool]
    ready: Callable[[], bool]


class Successor:
    """The successor of the process of that name, for one owner."""

    def __init__(self, name: str, owner: str, overlap: Overlap | None, run: Path, log: Path) -> None:
        self._of, self._owner, self._overlap, self._run, self._log = name, owner, overlap, run, log
        self._name = name_of(name)
        self._backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        self._not_before = 0.0
        self._mourned = ""  # the token of the last one that was found dead

    def prepare(self, argv: list[str], environment: Callable[[], Mapping[str, str]]) -> Iterator[str]:
        """Have one run that command, if it is worth the wait; yields lines for the log."""
        if self._overlap is None or not self._overlap.works():
            return
        found = self._record()
        if found is not None and found.argv != argv:
            yield from self.dismiss("another command is wanted now")
            found = None
        now = time.monotonic()
        if found is not None and not detached.alive(found) and found.token != self._mourned:
            self._mourned = found.token
            self._not_before = now + self._backoff.pause()
            yield f"DIED the successor of {self._of}, pid {found.pid}: see {self._log}"
        if detached.alive(found) or now < self._not_before:
            return
        made, _ = detached.ensure(
            self._name,
            argv,
            {**environment(), SUCCESSOR: "1"},
            log=self._log,
            run=self._run,
            owner=self._owner,
        )
        yield f"STARTED the successor of {self._of}, pid {made.pid}: {self._of} runs until it is ready"

    def awaited(self) -> bool:
        """Whether the process should go on because its successor is not ready."""
        return self._overlap is not None and self._overlap.works() and not self._overlap.ready()

    def take_place(self, argv: list[str]) -> Record | None:
        """Let it be the process of the name from now on; None if there is none that runs this command.

        One that runs another command is stopped.
        """
        found = self._record()
        if found is None or not detached.alive(found) or detached.alive(detached.read(self._of, self._run)):
            return None
        if found.argv != argv:
            detached.stop(found, STOP_GRACE, run=self._run)
            return None
        self._backoff.reset()
        return detached.rename(self._name, self._of, run=self._run, owner=self._owner)

    def dismiss(self, why: str) -> Iterator[str]:
        """Stop it, if there is one; yields lines for the log."""
        if (found := self._record()) is not None:
            detached.stop(found, STOP_GRACE, run=self._run)
            yield f"STOPPED the successor of {self._of}: {why}"

    def _record(self) -> Record | None:
        """Its record; None if there is none, or if it has taken the place already."""
        found, process = detached.read(self._name, self._run), detached.read(self._of, self._run)
        if found is not None and process is not None and found.token == process.token:
            detached.forget(self._name, self._run)
            return None
        return found
