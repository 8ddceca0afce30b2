"""The archiver's heartbeat: a JSON file that says where each partition is.

It is replaced every second.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
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
        self._topics: dict[str, tuple[float, dict[str, Any]]] = {}
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)

    def beat(self, topic: str, state: dict[str, Any]) -> None:
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
        topics = {name: {**state, "age": round(now - at, 3)} for name, (at, state) in self._topics.items()}
        beat = {"pid": os.getpid(), "updated_at": round(time.time(), 3), "topics": topics}
        try:
            write_whole(self._path, json.dumps(beat, indent=1))
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
        document = json.loads(path.read_text())
        found = [
            LeftBehind(topic, said["generation"], _at(document, said), tuple(map(int, said["partitions"])))
            for topic, said in document["topics"].items()
            if said["state"] == "archiving" and said["partitions"]
        ]
        if found:
            ended = {each.topic: {**document["topics"][each.topic], "state": "ended"} for each in found}
            write_whole(path, json.dumps({**document, "topics": document["topics"] | ended}, indent=1))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError, KeyError) as error:  # half of a file; a full disk
        log.warning("the heartbeat of the process before is no help: %s", error)
        return []
    return found


def _at(document: Mapping[str, Any], said: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(document["updated_at"] - said["age"], UTC)


def read(settings: Settings) -> dict[str, Any] | None:
    """The last heartbeat; None where there was none."""
    try:
        found: dict[str, Any] = json.loads(progress_file(settings).read_text())
    except FileNotFoundError:
        return None
    return found
