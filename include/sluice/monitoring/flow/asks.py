"""Questions that are asked in the background, so that one that hangs holds nobody up.

Everybody who looks shares the answers. A question is asked again when its answer is old and somebody looks,
and never twice at a time: questions that hang do not pile up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")

#: Characters of an error that are kept.
LETTERS = 300
#: An answer that is older (seconds) says nothing of now.
OLD = 30.0


@dataclass(frozen=True)
class Question:
    """What to call, and for how many seconds its answer is fresh."""

    ask: Callable[[], Any]
    fresh: float


@dataclass(frozen=True)
class Said(Generic[T]):
    """The last answer to a question.

    value: None before the first answer. error: why the last attempt failed; `value` is then an older one.
    age: seconds since the last attempt ended. waiting: seconds that the present attempt has lasted; 0: none.
    """

    value: T | None = None
    error: str = ""
    age: float = 0.0
    waiting: float = 0.0

    @property
    def recent(self) -> T | None:
        """The answer, unless it is not one of now."""
        return None if self.error or (self.waiting and self.age > OLD) else self.value


@dataclass
class _Asked:
    """The state of one question."""

    running: Future[Any] | None = None
    began: float = 0.0
    ended: float | None = None
    value: Any = None
    error: str = ""

    def harvest(self) -> None:
        """Take the answer if it came."""
        if self.running is None or not self.running.done():
            return
        error = self.running.exception()
        if error is None:
            self.value, self.error = self.running.result(), ""
        else:
            self.error = " ".join(str(error).split())[:LETTERS] or type(error).__name__
        self.running, self.ended = None, time.monotonic()

    def said(self, now: float) -> Said[Any]:
        waiting = 0.0 if self.running is None else now - self.began
        age = 0.0 if self.ended is None else now - self.ended
        return Said(self.value, self.error, age, waiting)


class Asks:
    """The questions of one server. workers: how many are asked at the same time."""

    def __init__(self, workers: int = 16) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="asks")
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] = {}

    def look(self, questions: Mapping[str, Question], patience: float) -> dict[str, Said[Any]]:
        """The answers by name. Waits at most `patience` seconds for those that are asked now."""
        with self._lock:
            running = [each for name, one in questions.items() if (each := self._start(name, one))]
        wait(running, patience)
        with self._lock:
            for name in questions:
                self._asked[name].harvest()
            now = time.monotonic()
            return {name: self._asked[name].said(now) for name in questions}

    def _start(self, name: str, question: Question) -> Future[Any] | None:
        """Ask unless the answer is fresh; returns what is to be waited for."""
        asked, now = self._asked.setdefault(name, _Asked()), time.monotonic()
        asked.harvest()
        if asked.running is None and (asked.ended is None or now - asked.ended >= question.fresh):
            asked.running, asked.began = self._pool.submit(question.ask), now
        return asked.running
