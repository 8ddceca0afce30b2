"""What is costly to look at: one look at a time, shared by all who ask."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sluice_airflow.api.reads import TooManyReaders

#: A look serves everybody who asks within this time.
FRESH_SECONDS = 1.0
#: Most requests that look or wait for a look; each holds a thread of the server.
WAITING = 4

T = TypeVar("T")


class Looks(Generic[T]):
    """One look at a time, shared by all who ask within FRESH_SECONDS. what: for the message."""

    def __init__(self, take: Callable[[], T], what: str) -> None:
        self._take, self._what = take, what
        self._places, self._lock = threading.BoundedSemaphore(WAITING), threading.Lock()
        self._last: T | None = None
        self._taken = 0.0

    def report(self) -> T:
        """The newest look. Raises TooManyReaders if too many wait for one."""
        if not self._places.acquire(blocking=False):
            raise TooManyReaders(f"too many ask for {self._what}", 2)
        try:
            with self._lock:
                if self._last is None or time.monotonic() - self._taken > FRESH_SECONDS:
                    self._last, self._taken = self._take(), time.monotonic()
                return self._last
        finally:
            self._places.release()
