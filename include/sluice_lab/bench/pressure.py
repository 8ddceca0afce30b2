"""Write lines into front-ends' log files at a rate, and watch from outside what happens."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.collection import inventory
from sluice.collection.pattern import Pattern
from sluice.runtime.settings import Settings
from sluice.stack import jobs
from sluice.stack.memory import ProcessFamily, proportional_bytes
from sluice.stack.progress import CountedTopic, SpeedLayerProgress
from sluice_lab.bench import workload

TOPIC = "logs"
PORTIONS_A_SECOND = 10
TEMPLATES = 200_000
STAMP = "%d/%b/%Y:%H:%M:%S +0000"
#: What each front-end's line of a probe begins with.
PROBE = "probe-"
STILL_SECONDS, SETTLE_SECONDS = 8.0, 600.0
#: The memory of hundreds of processes takes half a second of a core to measure: not at each look.
MEMORY_SECONDS = 10.0


class TrafficWriter:
    """Writes made-up lines with the current time into all front-ends in turn.

    `rate` may change at any time.
    """

    def __init__(self, settings: Settings) -> None:
        self.rate = 0.0
        self.written = 0
        self._patterns = [
            Pattern.parse(front_end.files[0], settings.home)
            for front_end in inventory.load(settings).front_ends
        ]
        made = workload.lines(TEMPLATES, 1)
        parts = pc.split_pattern_regex(made.cast(pa.string()), r"\[[^\]]*\]")
        self._before = pc.list_element(parts, 0)
        self._after = pc.binary_join_element_wise(pc.list_element(parts, 1), "", "\n")
        self._at = 0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def __enter__(self) -> TrafficWriter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def probe(self, name: str) -> tuple[float, int]:
        """Write a line of client `name`; returns when it was written and its event time in ms."""
        now = datetime.now(UTC)
        line = f'{name} - - [{now.strftime(STAMP)}] "GET / HTTP/1.1" 200 1 probe\n'
        self._append(0, line.encode(), now)
        with self._lock:
            self.written += 1
        return time.time(), int(now.timestamp()) * 1000

    def _run(self) -> None:
        owed, last, turn = 0.0, time.monotonic(), 0
        while not self._stop.wait(1 / PORTIONS_A_SECOND):
            now = time.monotonic()
            owed += self.rate * (now - last)  # a delay is made up for
            last = now
            count = min(int(owed), TEMPLATES)
            if count:
                self._portion(count, turn)
                owed -= count
                turn += 1

    def _portion(self, count: int, turn: int) -> None:
        if self._at + count > TEMPLATES:
            self._at = 0
        now = datetime.now(UTC)
        lines = pc.binary_join_element_wise(
            self._before.slice(self._at, count),
            f"[{now.strftime(STAMP)}]",
            self._after.slice(self._at, count),
            "",
        )
        self._at += count
        _, _, data = lines.buffers()
        self._append(turn % len(self._patterns), data, now)
        with self._lock:
            self.written += count

    def _append(self, front_end: int, data: Any, now: datetime) -> None:
        path: Path = self._patterns[front_end].path(now.date())
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as out:
            view = memoryview(data)
            while view:
                view = view[out.write(view) :]


@dataclass(frozen=True)
class Seen:
    """One look at the platform."""

    at: float  # seconds since the watch began
    written: int
    counted: int
    lag: int  # lines that are written but not counted yet
    memory: int  # bytes, of all processes of the instance, as of at most MEMORY_SECONDS before
    speed_memory: int  # of the speed layer and its workers
    batch_ms: int  # the sum of the newest batch's laps
    seq: int
    pass_us: int = 0  # microseconds of CPU time that counting took since the speed layer began


class Restarted(RuntimeError):
    """The speed layer that runs is not the one that was measured."""


@dataclass
class PlatformWatch:
    """Looks at the platform every second while it runs, and at its memory every MEMORY_SECONDS."""

    settings: Settings
    writer: TrafficWriter
    seen: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._family = ProcessFamily(self.settings)
        self._began = time.monotonic()
        self._measured = -MEMORY_SECONDS  # when memory was measured last
        self._memory = (0, 0)
        first = self.progress()
        self.before = self._records(first)
        self.pid, self.token = first.pid, self._topic(first).token

    def progress(self) -> SpeedLayerProgress:
        return jobs.speed_layer(self.settings)

    def look(self) -> Seen:
        """Look at the platform now and keep the look in `seen`. Raises Restarted."""
        progress = self.progress()
        topic = self._topic(progress)
        if progress.pid != self.pid or topic.token != self.token:
            errors = [error.message for error in topic.errors]
            raise Restarted(f"the speed layer of {self.settings.instance} was restarted: {errors}")
        counted = self._records(progress) - self.before
        at = time.monotonic() - self._began
        if at >= self._measured + MEMORY_SECONDS:
            self._measured, self._memory = at, self._measure()
        seen = Seen(
            at=at,
            written=self.writer.written,
            counted=counted,
            lag=self.writer.written - counted,
            memory=self._memory[0],
            speed_memory=self._memory[1],
            batch_ms=sum(topic.durations.values()),
            seq=topic.seq or 0,
            pass_us=topic.pass_us,
        )
        self.seen.append(seen)
        return seen

    def during(self, seconds: float, every: float = 1.0) -> list[Seen]:
        """Look at the platform for this long."""
        until, found = time.monotonic() + seconds, []
        while time.monotonic() < until:
            found.append(self.look())
            time.sleep(every)
        return found

    def until(self, condition: Callable[[Seen], bool], timeout: float) -> Seen | None:
        """Look until the condition holds; None if it does not hold in time."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            seen = self.look()
            if condition(seen):
                return seen
            time.sleep(0.5)
        return None

    def _measure(self) -> tuple[int, int]:
        """The memory of the instance, and that of the speed layer in it."""
        memory = {pid: proportional_bytes(pid) for pid in self._family.pids() - {os.getpid()}}
        speed = self._speed(set(memory))
        return sum(memory.values()), sum(memory[pid] for pid in speed)

    def _speed(self, pids: set[int]) -> set[int]:
        import psutil

        try:
            root = psutil.Process(self.pid)
            return {root.pid, *(child.pid for child in root.children(recursive=True))} & pids
        except psutil.Error:
            return set()

    @staticmethod
    def _topic(progress: SpeedLayerProgress) -> CountedTopic:
        return progress.topics.get(TOPIC, CountedTopic())

    def _records(self, progress: SpeedLayerProgress) -> int:
        topic = self._topic(progress)
        return topic.lines - topic.doubled


@contextmanager
def writing(settings: Settings) -> Iterator[tuple[TrafficWriter, PlatformWatch]]:
    """A writer, and a watch that begins once no more lines are in flight."""
    with TrafficWriter(settings) as writer:
        watch = PlatformWatch(settings, writer)
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            time.sleep(STILL_SECONDS)
            again = PlatformWatch(settings, writer)
            if again.before == watch.before:
                yield writer, again
                return
            watch = again
        raise TimeoutError(f"lines still come after {SETTLE_SECONDS:.0f} s, which are not this bench's")
