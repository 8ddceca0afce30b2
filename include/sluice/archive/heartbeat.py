"""The archiver's heartbeat: a JSON file that says where each partition is.

It is replaced every second.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack import jobs

log = logging.getLogger(__name__)


#: The first member of the archiver's groups, the one that always runs.
ARCHIVER = "archiver"


def progress_file(settings: Settings, member: str = ARCHIVER) -> Path:
    """Where that member of the instance's archiver writes its heartbeat."""
    return jobs.progress_file(settings, member)


class Heartbeat:
    """The state of all topics of one process, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._topics: dict[str, Any] = {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def beat(self, topic: str, state: dict[str, Any]) -> None:
        """Replace the topic's state; a reader sees the old file or the new one, never half of one."""
        with self._lock:
            self._topics[topic] = state
            self._write()

    def forget(self, topic: str) -> None:
        """Remove a topic that is not archived any more."""
        with self._lock:
            self._topics.pop(topic, None)
            self._write()

    def _write(self) -> None:
        beat = {"pid": os.getpid(), "updated_at": round(time.time(), 3), "topics": self._topics}
        try:
            write_whole(self._path, json.dumps(beat, indent=1))
        except OSError as error:  # a full disk must not stop the archiving: the archive is elsewhere
            log.warning("the heartbeat could not be written: %s", error)


def read(settings: Settings) -> dict[str, Any] | None:
    """The last heartbeat; None where there was none."""
    try:
        found: dict[str, Any] = json.loads(progress_file(settings).read_text())
    except FileNotFoundError:
        return None
    return found
