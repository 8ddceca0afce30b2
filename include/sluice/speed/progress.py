"""What a driver of the speed layer writes into its progress file (`stack.progress`)."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from filelock import FileLock, Timeout

from sluice.runtime import successor
from sluice.stack.jobs import SPEED_LAYER
from sluice.stack.progress import (
    CountedTopic,
    CountingState,
    DriverState,
    ProjectionProgress,
    SpeedLayerProgress,
    TopicError,
    write,
)

log = logging.getLogger(__name__)

ERRORS_KEPT = 5
#: Sums by task version; those of versions that a batch no longer counts are dropped.
TASK_SUMS = ("task_lines", "task_skipped", "task_unmatched", "task_too_long")


class SpeedProgress:
    """The progress of the running speed layer. Used by the threads of all topics.

    Only the process that holds the lock beside the file writes it: a second speed layer, which is fenced out,
    must not hide the progress of the first. A successor writes a file of its own while it waits.
    """

    def __init__(self, path: Path, driver: str = SPEED_LAYER) -> None:
        self.path = path
        self.driver = driver
        self._owner = FileLock(path.with_suffix(".lock"), thread_local=False)
        self._waits = True
        self._lock = threading.Lock()
        self._whole = SpeedLayerProgress(
            state=DriverState.STARTING, pid=os.getpid(), started_at=datetime.now(UTC)
        )
        path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def topics(self) -> Mapping[str, CountedTopic]:
        """The topics as they are written, by name."""
        return self._whole.topics

    def state(self, state: DriverState) -> None:
        with self._lock:
            self._whole.state = state
            self._write()

    def beat(self) -> None:
        """Show that the process is alive, idle or not."""
        with self._lock:
            self._write()

    def topic(self, topic: str, state: CountingState) -> None:
        with self._lock:
            self._of(topic).state = state
            self._write()

    def forget(self, topic: str) -> None:
        """Remove a topic that is not counted any more."""
        with self._lock:
            self._whole.topics.pop(topic, None)
            self._write()

    def error(self, topic: str, message: str) -> None:
        with self._lock:
            errors = self._of(topic).errors
            errors.append(TopicError(at=datetime.now(UTC), message=message))
            del errors[:-ERRORS_KEPT]
            self._write()

    def batch(
        self,
        topic: str,
        counts: Mapping[str, int],
        sums: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
        **shown: Any,
    ) -> None:
        """A batch was committed: add its counts, and its sums by name; replace the rest.

        Each name is a field of `CountedTopic`.
        """
        with self._lock:
            mine = self._of(topic)
            for name, count in counts.items():
                setattr(mine, name, getattr(mine, name) + count)
            for name, parts in sums.items():
                total = getattr(mine, name)
                for part, count in parts.items():
                    total[part] = total.get(part, 0) + count
            for name, value in shown.items():
                setattr(mine, name, value)
            for name in TASK_SUMS if "tasks" in shown else ():
                total = getattr(mine, name)
                setattr(mine, name, {label: total[label] for label in mine.tasks if label in total})
            mine.state, mine.batch_at = CountingState.COUNTING, datetime.now(UTC)
            mine.batches += 1
            self._write()

    def projected(self, topic: str, seq: int, results: int, took_ms: int) -> None:
        """The results of all commits up to `seq` are written; how many changed, and how long it took."""
        with self._lock:
            if topic in self.topics:  # else it was forgotten while its last results were written
                self._whole.topics[topic].projection = ProjectionProgress(
                    seq=seq, results=results, ms=took_ms, at=datetime.now(UTC)
                )
            self._write()

    def _of(self, topic: str) -> CountedTopic:
        return self._whole.topics.setdefault(topic, CountedTopic())

    @property
    def owned(self) -> bool:
        """Whether this process holds the file's lock; it takes the lock if that is free."""
        with suppress(Timeout):
            if not self._owner.is_locked:
                self._owner.acquire(timeout=0)
        return self._owner.is_locked

    @property
    def waits(self) -> bool:
        """Whether this process is a successor, which has not taken the driver's place."""
        if self._waits and not successor.waits(self.driver, self.path.parent):
            self._waits = False
            self._while_it_waits.unlink(missing_ok=True)
        return self._waits

    @property
    def _while_it_waits(self) -> Path:
        return self.path.with_name(successor.name_of(self.path.name))

    def _write(self) -> None:
        if self.waits:
            path = self._while_it_waits
        elif self.owned:
            path = self.path
        else:
            return
        self._whole.updated_at = datetime.now(UTC)
        try:
            write(path, self._whole)
        except OSError as error:  # a full disk must not stop the counting: what is counted is elsewhere
            log.warning("the progress could not be written: %s", error)
