"""The one picture of the platform that everybody gets who asks within a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sluice.monitoring.flow import boxes, tables
from sluice.monitoring.flow.past import FlowPast
from sluice.monitoring.flow.picture import Picture
from sluice.monitoring.flow.seen import FlowAnswers
from sluice.monitoring.flow.troubles import troubles

#: A picture serves everybody who asks within this time (seconds).
FRESH = 1.0


class Pictures:
    """The pictures of one server. look: finds out what they are made of; one call at a time."""

    def __init__(self, look: Callable[[], FlowAnswers]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._last: Picture | None = None
        self._taken = 0.0

    def picture(self) -> Picture:
        """The newest picture; the one before while somebody else looks."""
        last = self._last
        if not self._lock.acquire(blocking=last is None) and last is not None:
            return last
        try:
            if self._last is None or time.monotonic() - self._taken > FRESH:
                self._last, self._taken = picture(self._look()), time.monotonic()
            return self._last
        finally:
            self._lock.release()


def picture(seen: FlowAnswers) -> Picture:
    """The picture of what was seen; pure."""
    found = troubles(seen)
    past: FlowPast = seen.past.value or FlowPast()
    return Picture(
        at=seen.at,
        boxes=boxes.Boxes(seen, found).all(),
        troubles=tuple(found),
        daemons=boxes.daemons(seen),
        agents=boxes.agents(seen),
        fresh=tables.fresh(seen),
        hops=tables.hops(seen),
        hot=tables.hot(seen),
        since=past.since,
    )
