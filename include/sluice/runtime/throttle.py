"""Slows down guessing, and limits how often a name may call."""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Clock = Callable[[], float]
#: What is remembered of sources and names, each; what was used longest ago is forgotten first.
REMEMBERED = 10_000


class Throttle:
    """Limits guesses of passwords by who guesses (the source), by whose password it is (the name), and both.

    - A source that failed `tries` times in a row with a name waits `seconds` before each further attempt.
    - A source has a budget of attempts for all names together, and a name one for all sources together. Each
      holds `burst` attempts and gets `per_minute` back. A right password costs nothing.
    - A source that has once logged in with a name uses neither budget for it. So nobody else, and not many
      others together, can keep it out.

    An attempt counts before its password is checked: many at once are no way around the limits.
    """

    def __init__(
        self,
        tries: int = 5,
        seconds: float = 60.0,
        burst: int = 20,
        per_minute: int = 10,
        clock: Clock = time.monotonic,
    ) -> None:
        self._tries, self._seconds, self._clock = tries, seconds, clock
        self._failed: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._budgets = Rate(per_minute, burst=burst, clock=clock), Rate(per_minute, burst=burst, clock=clock)
        self._lock = threading.Lock()

    def knows(self, source: str, name: str) -> bool:
        """Whether this source has logged in with this name."""
        with self._lock:
            return (source, name) in self._known

    def wait(self, source: str, name: str) -> float:
        """For how many seconds the source may not try this name; 0 if it may."""
        with self._lock:
            return self._wait(source, name)

    def take(self, source: str, name: str) -> float:
        """Count an attempt, which fails unless `passed` follows; else the seconds until it may be made."""
        with self._lock:
            if wait := self._wait(source, name):
                return wait
            count, _ = self._failed.pop((source, name), (0, 0.0))
            self._failed[source, name] = count + 1, self._clock()
            if (source, name) not in self._known:
                for budget, key in zip(self._budgets, (source, name), strict=True):
                    budget.take(key)
            _shorten(self._failed)
            return 0.0

    def passed(self, source: str, name: str) -> None:
        """The attempt's password was right."""
        with self._lock:
            self._failed.pop((source, name), None)
            if (source, name) not in self._known:
                for budget, key in zip(self._budgets, (source, name), strict=True):
                    budget.give_back(key)
            self._known[source, name] = None
            self._known.move_to_end((source, name))
            _shorten(self._known)

    def _wait(self, source: str, name: str) -> float:
        count, last = self._failed.get((source, name), (0, 0.0))
        waits = [last + self._seconds - self._clock()] if count >= self._tries else []
        if (source, name) not in self._known:
            waits += [budget.wait(key) for budget, key in zip(self._budgets, (source, name), strict=True)]
        return max(0.0, *waits, 0.0)


class QueueFull(RuntimeError):
    """Too much is waiting already."""


class Queue:
    """Lets few work at a time, one of each source, and few wait.

    running: work at a time. waiting: wait or work, at most; `each`: of one source. A third of the places is
    kept for those who are known, so strangers cannot take all.
    """

    def __init__(self, running: int = 2, waiting: int = 24, each: int = 8) -> None:
        self._most, self._waiting, self._each = running, waiting, each
        self._running: set[str] = set()
        self._queued: Counter[str] = Counter()
        self._changed = threading.Condition()

    @contextmanager
    def place(self, source: str, known: bool = False) -> Iterator[None]:
        """Wait for one's turn. Raises QueueFull."""
        places = self._waiting if known else self._waiting * 2 // 3
        with self._changed:
            if self._queued.total() >= places or self._queued[source] >= self._each:
                raise QueueFull("too many log-ins at once: try again in a second")
            self._queued[source] += 1
            self._changed.wait_for(lambda: len(self._running) < self._most and source not in self._running)
            self._running.add(source)
        try:
            yield
        finally:
            with self._changed:
                self._running.remove(source)
                self._queued[source] -= 1
                if not self._queued[source]:
                    del self._queued[source]
                self._changed.notify_all()


class Rate:
    """Allows each name `per_minute` calls a minute, from a bucket that fills steadily.

    burst: what the bucket holds; default: the calls of a minute.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst: int | None = None,
        names: int = REMEMBERED,
        clock: Clock = time.monotonic,
    ) -> None:
        self._per_second, self._burst = per_minute / 60, float(burst or per_minute)
        self._names, self._clock = names, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # calls left, and at what time
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """The seconds until there is a call; 0 if there is one."""
        with self._lock:
            return self._seconds(self._now(name))

    def take(self, name: str) -> float:
        """Take one call; returns 0 if one was left, else the seconds until there is one."""
        with self._lock:
            left = self._now(name)
            wait = self._seconds(left)
            self._put(name, left if wait else left - 1)
            return wait

    def give_back(self, name: str) -> None:
        """Undo a `take`."""
        with self._lock:
            self._put(name, min(self._burst, self._now(name) + 1))

    def _now(self, name: str) -> float:
        left, at = self._left.get(name, (self._burst, 0.0))
        return min(self._burst, left + (self._clock() - at) * self._per_second)

    def _seconds(self, left: float) -> float:
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def _put(self, name: str, left: float) -> None:
        self._left[name] = left, self._clock()
        self._left.move_to_end(name)
        _shorten(self._left, self._names)


def _shorten(kept: OrderedDict[Any, Any], most: int = REMEMBERED) -> None:
    while len(kept) > most:
        kept.popitem(last=False)
