"""How long a unit that moves takes nothing: looked at from both hosts, by the agents' own counters."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from sluice.collection import metrics
from sluice.collection.metrics import MetricsUnreachable

#: How exact a pause is known, beside the time of a question.
_LOOK_SECONDS = 0.05
#: Longest watch of a unit; one that takes nothing at its new host by then is given up.
MOST_SECONDS = 120.0


@dataclass
class Taken:
    """Seconds since the epoch: of the last block at the old host, and of the first at the new one."""

    last: float | None = None
    first: float | None = None

    @property
    def pause(self) -> float | None:
        return None if self.last is None or self.first is None else self.first - self.last


class MoveObserver:
    """Looks at a unit from before it moves until it takes blocks at its new host, in a thread."""

    def __init__(self, port: int, old: str, new: str) -> None:
        """port: of the agent's counters. old, new: the hosts' addresses."""
        self._port, self._old, self._new = port, old, new
        self._taken = Taken()
        self._seen = self._blocks(old)
        self._deadline = time.monotonic() + MOST_SECONDS
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()

    def done(self) -> Taken:
        """What was seen, when the unit takes blocks again or was given up."""
        self._thread.join()
        return self._taken

    def _run(self) -> None:
        while time.monotonic() < self._deadline:
            before = self._blocks(self._old)
            if before is not None and before != self._seen:
                self._seen, self._taken.last = before, time.time()
            if self._blocks(self._new):
                self._taken.first = time.time()
                return
            time.sleep(_LOOK_SECONDS)

    def _blocks(self, address: str) -> float | None:
        """The blocks that the agent there took since it began; None without an agent."""
        with suppress(MetricsUnreachable):
            return metrics.read(self._port, address).channel.get("EventPutSuccessCount")
        return None
