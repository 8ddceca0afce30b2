"""A Spark session that starts when it is first needed.

A session is a JVM, which takes 5 s of CPU time to start, and then some hundred MB. A driver that counts few
lines at a time needs none (docs/decisions/0009-start-of-spark.md).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OnDemand:
    """One session for all threads of a process; `start` makes it."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        """The session, started by the first caller while others wait; if that fails, by the next one."""
        with self._lock:
            if self._session is None:
                self._session = self._start()
            return self._session

    @property
    def started(self) -> SparkSession | None:
        """The session; None if nobody has needed it yet."""
        return self._session

    def stop(self) -> None:
        """Stop the session if it was started. One that is being started ends with this process."""
        if self._session is not None:
            self._session.stop()
