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
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice.runtime import detached
from sluice.runtime.backoff import Backoff
from sluice.runtime.detached import ProcessRecord

#: In the environment of a process that was started as a successor.
SUCCESSOR = "SLUICE_SUCCESSOR"
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
LATELY = 600.0  # how long a death or a restart counts as recent
STOP_GRACE = 15.0  # less than the 30 s that Airflow's triggerer gives to on_kill
_PREFIX = "next."


def name_of(name: str) -> str:
    """The name of the successor of the process of that name."""
    return f"{_PREFIX}{name}"


def whose(name: str) -> str:
    """The process's own name: strips the successor's prefix; any other name stays as it is."""
    return name.removeprefix(_PREFIX)


def lately(times: Iterable[float]) -> int:
    """How many of these times of the monotonic clock are recent."""
    return sum(1 for at in times if at > time.monotonic() - LATELY)


def waits(name: str, run: Path) -> bool:
    """Whether this process was started as the successor of the one of that name, which it is not yet.

    run: where the records are.
    """
    if SUCCESSOR not in os.environ:
        return False
    record = detached.read(name, run)
    return record is None or record.pid != os.getpid()


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
        self._deaths: deque[float] = deque(maxlen=100)

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
            self._deaths.append(now)
            self._not_before = now + self._backoff.pause()
            yield f"DIED the successor of {self._of}, pid {found.pid}: see {self._log}"
        if detached.alive(found) or now < self._not_before:
            return
        # The process still writes to the log, so that is not put aside.
        made, _ = detached.ensure(
            self._name,
            argv,
            {**environment(), SUCCESSOR: "1"},
            log=self._log,
            run=self._run,
            owner=self._owner,
            rotate=False,
        )
        yield f"STARTED the successor of {self._of}, pid {made.pid}: {self._of} runs until it is ready"

    def adopt(self) -> None:
        """Own it, if there is one."""
        if self.lives:
            detached.adopt(self._name, self._run, self._owner)

    @property
    def lives(self) -> bool:
        return detached.alive(self._record())

    @property
    def awaited(self) -> bool:
        """Whether the process should go on because its successor is not ready."""
        return self._overlap is not None and self._overlap.works() and not self._overlap.ready()

    @property
    def died_lately(self) -> int:
        """How often it died in the last LATELY seconds."""
        return lately(self._deaths)

    def take_place(self) -> ProcessRecord | None:
        """Let it be the process of the name from now on; None if there is none, or the process lives."""
        if not self.lives:
            return None
        self._backoff.reset()
        return detached.rename(self._name, self._of, run=self._run, owner=self._owner)

    def dismiss(self, why: str) -> Iterator[str]:
        """Stop it, if this owner has one, and forget one that is dead; yields lines for the log."""
        if (found := self._record()) is None:
            return
        owner = self._owner if detached.alive(found) else None
        if detached.stop(found, STOP_GRACE, run=self._run, owner=owner):
            yield f"STOPPED the successor of {self._of}: {why}"

    def _record(self) -> ProcessRecord | None:
        """Its record; None if there is none, or if it has taken the place already."""
        found, process = detached.read(self._name, self._run), detached.read(self._of, self._run)
        if found is not None and process is not None and found.token == process.token:
            detached.forget(self._name, self._run)
            return None
        return found
