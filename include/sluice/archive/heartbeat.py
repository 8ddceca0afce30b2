"""The archiver's heartbeat: a progress file that says where each partition is (`stack.progress`).

It is replaced every second.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sluice.stack.progress import ArchivedTopic, ArchiverProgress, ArchivingState, read, write

log = logging.getLogger(__name__)


class Heartbeat:
    """The state of all topics of one process, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._topics: dict[str, tuple[float, ArchivedTopic]] = {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def beat(self, topic: str, state: ArchivedTopic) -> None:
        """Replace the topic's state; a reader sees the old file or the new one, never half of one."""
        with self._lock:
            self._topics[topic] = time.monotonic(), state
            self._write()

    def forget(self, topic: str) -> None:
        """Remove a topic that is not archived any more."""
        with self._lock:
            self._topics.pop(topic, None)
            self._write()

    def _write(self) -> None:
        # The thread of one topic may hang while another's beats. A reader on another host has another clock.
        now = time.monotonic()
        topics = {
            name: state.model_copy(update={"age": round(now - at, 3)})
            for name, (at, state) in self._topics.items()
        }
        try:
            write(self._path, ArchiverProgress(pid=os.getpid(), updated_at=datetime.now(UTC), topics=topics))
        except OSError as error:  # a full disk must not stop the archiving: the archive is elsewhere
            log.warning("the heartbeat could not be written: %s", error)


@dataclass(frozen=True)
class LeftBehind:
    """What a process archived of a topic when it died, and when it said so last."""

    topic: str
    generation: int
    at: datetime
    partitions: tuple[int, ...]


def left_behind(path: Path) -> list[LeftBehind]:
    """What the process that wrote this heartbeat archived when it died; empty if it gave up all in order.

    The file then says that it ended, so that this is answered once.
    """
    try:
        document = read(path, ArchiverProgress)
        found = [each for name, topic in document.topics.items() if (each := _died(document, name, topic))]
        if found:
            ended = {
                each.topic: document.topics[each.topic].model_copy(update={"state": ArchivingState.ENDED})
                for each in found
            }
            write(path, document.model_copy(update={"topics": document.topics | ended}))
    except OSError as error:  # a full disk
        log.warning("the heartbeat of the process before is no help: %s", error)
        return []
    return found


def _died(document: ArchiverProgress, name: str, topic: ArchivedTopic) -> LeftBehind | None:
    at, archived = document.updated_at, topic.state == ArchivingState.ARCHIVING and topic.partitions
    if not archived or at is None or topic.generation is None:
        return None
    return LeftBehind(name, topic.generation, at - timedelta(seconds=topic.age), tuple(topic.partitions))
