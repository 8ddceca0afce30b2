"""The running platform for tests of faults: write lines, kill parts, wait, compare.

`expected` computes what must come out from the lines in plain Python; it shares nothing with the engine.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sluice.quality.hops import Hops
from sluice.results.layer_results import Number, Series
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import supervisord
from sluice_lab import draining
from sluice_lab.draining import DRAIN_SECONDS
from sluice_lab.waiting import until
from tests.repeated import repeated
from tests.results.by_series import BySeries, stored_results

TOPIC = "logs"
#: The days on which the faults happen and which the nights afterwards compute.
DAYS = tuple(dt.date(2024, 3, 1) + dt.timedelta(days=n) for n in range(3))
MINUTE, FIVE_MINUTES, HOUR = 60_000, 300_000, 3_600_000
PIECE = 20  # lines that `traffic` writes at a time
COMMAND_SECONDS = 600.0
#: For tests whose own waits, for nights or moves on a slow machine, add up to more than pytest allows.
TIMEOUT_SECONDS = 3600


def expected(lines: Iterable[str]) -> dict[str, dict[Series, dict[str, Number]]]:
    """What the three tasks of include/tasks.yaml count of these lines (all of which parse)."""
    status: Counter[Series] = Counter()
    client: Counter[Series] = Counter()
    sizes: dict[Series, list[int | None]] = {}
    for line in lines:
        field = line.split(" ")
        stamp = dt.datetime.strptime(field[3][1:] + " " + field[4][:-1], "%d/%b/%Y:%H:%M:%S %z")
        ms = int(stamp.timestamp() * 1000)
        status[ms - ms % MINUTE, (field[8],)] += 1
        if field[8] != "304":
            client[ms - ms % FIVE_MINUTES, (field[0],)] += 1
        size = None if field[9] == "-" else int(field[9])
        sizes.setdefault((ms - ms % HOUR, (field[6],)), []).append(size)
    return {
        "hits_by_status": {series: {"count": n} for series, n in status.items()},
        "hits_by_client": {series: {"count": n} for series, n in client.items()},
        "bytes_by_path": {series: _measures(found) for series, found in sizes.items()},
    }


def _measures(found: list[int | None]) -> dict[str, Number]:
    known = [size for size in found if size is not None]
    answer: dict[str, Number] = {"count": len(found), "missing": len(found) - len(known)}
    if known:
        answer |= {"sum": sum(known), "avg": sum(known) / len(known), "min": min(known), "max": max(known)}
    return answer


@contextmanager
def traffic(write: Callable[[int], None]) -> Iterator[list[int]]:
    """Have PIECE lines written all the time, as long as the block lasts; yields how many so far.

    write: writes the next ones; it is given how many there are.
    """
    written = [0]

    def go_on() -> None:
        write(written[0])
        written[0] += PIECE

    with repeated(go_on, 0.1):
        yield written


@dataclass
class Platform:
    """One running instance, and every line that was ever written into its front-ends.

    The lines are kept in a file, too, so that tests which run again on the instance know of them.
    """

    settings: Settings
    faults: Path
    written: dict[dt.date, list[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self._kept.exists():
            for day, line in map(json.loads, self._kept.read_text().splitlines()):
                self.written.setdefault(dt.date.fromisoformat(day), []).append(line)

    @property
    def _kept(self) -> Path:
        return self.settings.home / "written.jsonl"

    def note(self, day: dt.date, lines: list[str]) -> None:
        """Remember good lines of that day, which somebody else writes."""
        with self._lock, self._kept.open("a") as out:
            self.written.setdefault(day, []).extend(lines)
            out.writelines(json.dumps([f"{day}", line]) + "\n" for line in lines)

    def write(self, day: dt.date, lines: list[str], host: str = "web1") -> None:
        """Append good lines of that day to the front-end's log file of that day."""
        self.note(day, lines)
        self.append(day, "".join(line + "\n" for line in lines).encode(), host)

    def append(self, file_day: dt.date, data: bytes, host: str = "web1") -> Path:
        path = self.settings.home / "frontends" / host / f"access.{file_day}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as out:
            out.write(data)
        return path

    def sluice(self, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as a user does, with `text` as its input."""
        command = [sys.executable, "-m", "sluice.cli.main", "--instance", self.settings.instance, *arguments]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )

    def drain(self, timeout: float = DRAIN_SECONDS, topic: str = TOPIC) -> Hops:
        """Wait until none of the topic's lines is in flight; returns the hops at that time."""
        return draining.drain(self.settings, topic, timeout)

    def assert_online_is_exact(self, day: dt.date) -> None:
        """Every online result of the day is what plain Python counts, no more and no less."""
        for task, wanted in expected(self.written[day]).items():
            assert self.counted(task, day, "online").values == wanted, task

    def counted(self, task: str, day: dt.date, layer: Literal["online", "offline", "published"]) -> BySeries:
        """What is stored of a task's periods that start on the day."""
        start = int(dt.datetime.combine(day, dt.time(), dt.UTC).timestamp() * 1000)
        return stored_results(self.settings, task, layer, since=start, until=start + 24 * HOUR)

    def kill_job(self, name: str) -> detached.ProcessRecord:
        """kill -9 a detached process, but not its children."""
        record = self.job(name)
        os.kill(record.pid, signal.SIGKILL)
        return record

    def job(self, name: str) -> detached.ProcessRecord:
        record = detached.read(name, self.settings.home / "run")
        assert record is not None, f"{name} was never started"
        return record

    def wait_restarted(self, before: detached.ProcessRecord) -> float:
        """Wait until another process runs under the name; returns how many seconds that took."""
        begin = time.monotonic()

        def restarted() -> bool:
            now = detached.read(before.name, self.settings.home / "run")
            return now is not None and now.pid != before.pid and detached.alive(now)

        until(restarted, what=f"{before.name} is restarted")
        return time.monotonic() - begin

    def kill_daemon(self, name: str) -> None:
        """kill -9 a daemon under supervisord, which may not have noticed yet that it is dead already."""
        with suppress(ProcessLookupError):
            os.kill(supervisord.programs(self.settings)[name].pid, signal.SIGKILL)

    def arm(self, point: str) -> Path:
        """Let the next process that reaches this point die there; the file then disappears."""
        self.faults.mkdir(parents=True, exist_ok=True)
        armed = self.faults / point
        armed.touch()
        return armed

    def wait_fired(self, armed: Path) -> None:
        until(lambda: not armed.exists(), what=f"something dies at {armed.name}")
