"""Several processes of one job, as many as its work needs; the first one always runs.

The members are named ``<job>``, ``<job>-2``, ``<job>-3`` ... A crew is used like a `Supervisor`. It finds the
members that run already, so it survives the death of the process that watches.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sluice.runtime import detached, successor
from sluice.runtime.supervision import Supervisor

#: Between two decisions on how many members there are.
DECIDE_SECONDS = 10.0


class Crew:
    """Watches the members of one job for one owner.

    make: returns the supervisor of the member of a name. wanted: how many members there should be, by the
    seconds of a clock and how many there are; a crew grows and shrinks by one at a time.
    """

    def __init__(
        self, job: str, make: Callable[[str], Supervisor], wanted: Callable[[float, int], int]
    ) -> None:
        self._job, self._make, self._wanted = job, make, wanted
        self._members = [make(name) for name in (job, *self._others(make(job).run))]
        self._decided = time.monotonic()

    @property
    def log(self) -> Path:
        """The first member's log."""
        return self._members[0].log

    @property
    def restarted_lately(self) -> int:
        """How often members were restarted lately."""
        return sum(member.restarted_lately for member in self._members)

    @property
    def successor_died_lately(self) -> int:
        """How often successors of members died lately."""
        return sum(member.successor_died_lately for member in self._members)

    def claim(self) -> str:
        """Adopt all members, or start the first; returns a line for the log.

        Members after them that died while nobody watched are forgotten, and what is left of them is killed.
        """
        run = self._members[0].run
        for record in self._records(run):
            if self._number(record.name) > len(self._members) and not detached.alive(record):
                detached.stop(record, 0.0, run=run)
        return "; ".join([member.claim() for member in self._members])

    def poll(self) -> Iterator[str]:
        """Look once at each member, and at how many there should be; yields lines for the log.

        Raises what `Supervisor.poll` raises.
        """
        for member in self._members:
            yield from member.poll()
        now = time.monotonic()
        if now - self._decided >= DECIDE_SECONDS:
            self._decided = now
            yield from self._resize(self._wanted(now, len(self._members)))

    def restart(self, why: str) -> Iterator[str]:
        """Stop each member and start it again; yields lines for the log."""
        for member in self._members:
            yield from member.restart(why)

    def stop(self) -> bool:
        """Stop all members that this owner still has, at the same time; whether anything was stopped."""
        with ThreadPoolExecutor(len(self._members)) as pool:
            return any(list(pool.map(lambda member: member.stop(), self._members)))

    def _resize(self, wanted: int) -> Iterator[str]:
        if wanted > len(self._members):
            member = self._make(f"{self._job}-{len(self._members) + 1}")
            said = member.claim()
            self._members.append(member)
            yield f"ONE MORE, now {len(self._members)}: {said}"
        elif wanted < len(self._members) > 1:
            member = self._members.pop()
            member.stop()
            yield f"ONE LESS, now {len(self._members)}: stopped {member.name}"

    def _others(self, run: Path) -> list[str]:
        """The members after the first, up to the highest number that runs; one that is missing is started."""
        living = [self._number(each.name) for each in self._records(run) if detached.alive(each)]
        highest = max(living, default=1)
        return [f"{self._job}-{number}" for number in range(2, highest + 1)]

    def _records(self, run: Path) -> list[detached.ProcessRecord]:
        """Those of the members after the first, and of their successors."""
        found = [detached.read(name, run) for name in detached.names(run) if self._number(name)]
        return [record for record in found if record is not None]

    def _number(self, name: str) -> int:
        """Which member after the first that is, or is to become; 0 if it is none."""
        found = re.fullmatch(rf"{re.escape(self._job)}-(\d+)", successor.whose(name))
        return int(found[1]) if found else 0
