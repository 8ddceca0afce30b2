"""The speed layer's progress and heartbeat, as a file.

Supervision, `sluice status` and the demo read ``var/<instance>/run/speed_layer.progress.json``, or one such
file of each driver (`stack.jobs.progress` makes one document of them). It is replaced whole, so a reader
never sees half of it::

    {"state": "running", "pid": 4711, "token": ..., "started_at": ..., "updated_at": ...,
     "topics": {"logs": {"state": "counting", "seq": 17, "end": {"0": 2500, ...}, "records": 10000,
                         "bytes": 1200000, "doubled": 0, "counted": 9999, "dead": 1,
                         "pass_us": 9800, "lag": 0,
                         "tasks": ["1v1", ...], "blocks": 12, "newest_arrival": 1763805600000,
                         "unmatched": 0,
                         "task_lines": {"1v1": 9999, ...}, "task_skipped": {"1v1": 0, ...},
                         "task_unmatched": {"1v1": 0, ...}, "task_too_long": {"1v1": 0, ...},
                         "dead_reasons": {"no event time": 1}, "freshness": {"0.5": 800, ...},
                         "freshness_ms": 8123456,
                         "grouping": {"1v1": {"strategy": "combine", ...}, ...},
                         "durations": {"pass": 180, "commit": 20, ...}, "batch_at": ..., "errors": [...],
                         "projection": {"seq": 17, "results": 90, "ms": 35, "at": ...}}}}

`records` and the other counts are sums since the start, in lines: `records` is how many came. `pass_us` is
such a sum, too: the microseconds of CPU time that the pass over them took. So are `unmatched` (lines that
have a time and are not of the topic's format), `task_lines`, `task_skipped` (lines without a measure),
`task_unmatched` and `task_too_long` (lines that a task skipped: `engine.outcomes`), `dead_reasons`, and
`freshness`: lines by how many seconds they waited at most from their arrival in Kafka to their commit.
`newest_arrival` is of the newest line that was counted (ms since the epoch). `lag` is in Kafka records, which
have one line or more. `durations` are those of the newest batch, in ms; `grouping` is `routed.report`;
`projection` says up to which commit results are written, and how many of them changed and were written by the
newest projection.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from filelock import FileLock, Timeout

from sluice.runtime import successor
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice.stack.jobs import SPEED_LAYER

State = Literal["starting", "running", "stopped", "fenced"]
TopicState = Literal["starting", "counting", "failed", "stopped"]
ERRORS_KEPT = 5
#: Sums by task version; those of versions that a batch no longer counts are dropped.
TASK_SUMS = ("task_lines", "task_skipped", "task_unmatched", "task_too_long")


def progress_path(settings: Settings, driver: str = SPEED_LAYER) -> Path:
    return settings.home / "run" / f"{driver}.progress.json"


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
        self._topics: dict[str, dict[str, Any]] = {}
        self._whole: dict[str, Any] = {"state": "starting", "pid": os.getpid(), "started_at": _now()}
        path.parent.mkdir(parents=True, exist_ok=True)

    def state(self, state: State) -> None:
        with self._lock:
            self._whole["state"] = state
            self._write()

    def beat(self) -> None:
        """Show that the process is alive, idle or not."""
        with self._lock:
            self._write()

    def topic(self, topic: str, state: TopicState) -> None:
        with self._lock:
            self._of(topic)["state"] = state
            self._write()

    def forget(self, topic: str) -> None:
        """Remove a topic that is not counted any more."""
        with self._lock:
            self._topics.pop(topic, None)
            self._write()

    def error(self, topic: str, message: str) -> None:
        with self._lock:
            errors = self._of(topic)["errors"]
            errors.append({"at": _now(), "message": message})
            del errors[:-ERRORS_KEPT]
            self._write()

    def batch(
        self,
        topic: str,
        counts: Mapping[str, int],
        sums: Mapping[str, Mapping[str, int]] = MappingProxyType({}),
        **shown: Any,
    ) -> None:
        """A batch was committed: add its counts, and its sums by name; replace the rest."""
        with self._lock:
            mine = self._of(topic)
            for name, count in counts.items():
                mine[name] = mine.get(name, 0) + count
            for name, parts in sums.items():
                total = mine.setdefault(name, {})
                for part, count in parts.items():
                    total[part] = total.get(part, 0) + count
            for name in TASK_SUMS:
                if name in mine and "tasks" in shown:
                    mine[name] = {label: mine[name][label] for label in shown["tasks"] if label in mine[name]}
            mine.update(shown, state="counting", batch_at=_now(), batches=mine.get("batches", 0) + 1)
            self._write()

    def projected(self, topic: str, seq: int, results: int, took_ms: int) -> None:
        """The results of all commits up to `seq` are written; how many changed, and how long it took."""
        with self._lock:
            shown = {"seq": seq, "results": results, "ms": took_ms, "at": _now()}
            if topic in self._topics:  # else it was forgotten while its last results were written
                self._topics[topic]["projection"] = shown
            self._write()

    def _of(self, topic: str) -> dict[str, Any]:
        return self._topics.setdefault(topic, {"state": "starting", "errors": []})

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
        whole = {**self._whole, "updated_at": _now(), "topics": self._topics}
        write_whole(path, json.dumps(whole, indent=1))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
