"""Watches how the platform recovers: looks at all parts again and again, beside the faults.

A recovery counts from the end of its fault: from the kill, or from SIGCONT. The part has recovered once it
works, and as another process if it was killed. The platform has once all parts work in one look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sluice_lab.chaos.draws import DrawnFault
from sluice_lab.chaos.faults import DoneFault
from sluice_lab.chaos.parts import PartHealth

LOOK_SECONDS = 2.0

Look = Callable[[], Mapping[str, PartHealth]]


@dataclass
class Recovery:
    """A fault that happened, and how long the part and the whole platform took (seconds); None: not yet."""

    fault: DrawnFault
    done: DoneFault
    part_seconds: float | None = None
    platform_seconds: float | None = None
    overlapped: bool = False  # whether the next fault did not wait for it

    @property
    def over(self) -> bool:
        return self.platform_seconds is not None

    def judge(self, at: float, found: Mapping[str, PartHealth]) -> None:
        """Take a look into account that was begun at this time and may have seen the fault itself."""
        if self.over or at < self.done.ended:
            return
        seconds = round(time.time() - self.done.ended, 1)
        if self.part_seconds is None and self._works(found[self.fault.part]):
            self.part_seconds = seconds
        works = self.part_seconds is not None and not any(each.problem for each in found.values())
        if works and not self.done.killed & {each.pid for each in found.values()}:
            self.platform_seconds = seconds

    def _works(self, part: PartHealth) -> bool:
        fresh = part.said is None or part.said > self.done.ended
        return not part.problem and part.pid not in self.done.killed and fresh


@dataclass
class RecoveryWatch:
    """Looks at the parts in a thread of its own, between `with` and its end."""

    look: Look
    look_seconds: float = LOOK_SECONDS
    recoveries: list[Recovery] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)  # of the last look, by part
    _ended: threading.Event = field(default_factory=threading.Event)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def __enter__(self) -> RecoveryWatch:
        self._thread = threading.Thread(target=self._go_on, name="recovery", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join(timeout=60)

    def add(self, recovery: Recovery) -> None:
        with self._changed:
            self.recoveries.append(recovery)

    def wait(self, seconds: float) -> bool:
        """Wait until every fault so far is recovered from; returns whether it is within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: all(each.over for each in self.recoveries), seconds)

    def _go_on(self) -> None:
        while not self._ended.wait(self.look_seconds):
            if all(each.over for each in self.recoveries):
                continue
            at = time.time()
            try:
                found = self.look()
            except Exception as error:  # whatever a client raises of a platform that is half there
                self.problems = {"the look": f"{type(error).__name__}: {error}"}
                continue
            with self._changed:
                self.problems = {name: each.problem for name, each in found.items() if each.problem}
                for recovery in self.recoveries:
                    recovery.judge(at, found)
                self._changed.notify_all()
