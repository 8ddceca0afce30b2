"""Slows down guessing, and limits how often a name may call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Throttle:
    """Refuses a name for `seconds` after `tries` failures in a row.

    It remembers at most `names` names, and first forgets those whose last failure is longest ago.
    """

    def __init__(
        self,
        tries: int = 5,
        seconds: float = 60.0,
        names: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tries, self._seconds, self._names, self._clock = tries, seconds, names, clock
        self._failed: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """For how many seconds the name is still refused; 0 if it is not."""
        with self._lock:
            count, last = self._failed.get(name, (0, 0.0))
        return max(0.0, last + self._seconds - self._clock()) if count >= self._tries else 0.0

    def failed(self, name: str) -> None:
        """Record a failure."""
        with self._lock:
            count, _ = self._failed.pop(name, (0, 0.0))
            self._failed[name] = count + 1, self._clock()
            while len(self._failed) > self._names:
                del self._failed[next(iter(self._failed))]

    def passed(self, name: str) -> None:
        """Forget the name's failures."""
        with self._lock:
            self._failed.pop(name, None)


class Rate:
    """Allows each name `per_minute` calls a minute, from a bucket that fills steadily.

    It remembers at most `names` names.
    """

    def __init__(
        self, per_minute: int, names: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._names, self._clock = per_minute, names, clock
        self._left: dict[str, tuple[float, float]] = {}  # calls left, and at what time
        self._lock = threading.Lock()

    def take(self, name: str) -> float:
        """Take one call; returns 0 if one was left, else the seconds until there is one."""
        with self._lock:
            now = self._clock()
            left, at = self._left.pop(name, (float(self._burst), now))
            left = min(self._burst, left + (now - at) * self._burst / 60)
            wait = 0.0 if left >= 1 else (1 - left) * 60 / self._burst
            self._left[name] = (left if wait else left - 1), now
            while len(self._left) > self._names:
                del self._left[next(iter(self._left))]
            return wait
