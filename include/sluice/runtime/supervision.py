"""Keep one detached process alive: it is restarted within one poll of its death.

A process is restarted when it dies or when it stands still, that is, when its position has not changed for
``stuck_after`` seconds while its lag grows. A process that dies within STEADY seconds of its start is started
again after 0, 1, 2, 4 ... seconds. If that happens more than EARLY_DEATHS times in a row, the process is in a
crash loop: Airflow retries, then a person must look at it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from sluice.runtime import detached
from sluice.runtime.successor import STOP_GRACE, Overlap, Successor, lately

STEADY = 60.0
EARLY_DEATHS = 8  # their delays add up to 91 s: a daemon that restarts is back by then
LONGEST_DELAY = 30.0
TAIL_LINES = 15


class Superseded(RuntimeError):
    """Another supervisor owns the process now, so this one must leave it alone."""


class CrashLoop(RuntimeError):
    """The process dies again and again; the message ends with the last lines of its log."""


class Supervisor:
    """Watches one process for one owner.

    argv: the command, or what says which it is now; a process that runs another one is restarted.
    overlap: if a process that is to run another command goes on until its successor is ready.
    environment: called at each start, so that a changed connection is used from the next start on.
    position: something that changes as the process makes progress; lag: what it still has to do. Each returns
    None if it is unknown.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str] | Callable[[], Sequence[str]],
        owner: str,
        *,
        environment: Callable[[], Mapping[str, str]] = dict,
        position: Callable[[], object] = lambda: None,
        stuck_after: float = 300.0,
        lag: Callable[[], int | None] = lambda: None,
        overlap: Overlap | None = None,
        run: Path | None = None,
    ) -> None:
        self.name, self.owner = name, owner
        self._argv = argv
        self.environment, self.position, self.lag, self.stuck_after = environment, position, lag, stuck_after
        self.run = run or detached.run_dir()
        self.log = self.run.parent / "logs" / f"{name}.log"
        self._successor = Successor(name, owner, overlap, self.run, self.log)
        self._restarts: deque[float] = deque(maxlen=100)
        self._early_deaths = 0
        self._not_before = 0.0
        self._mourned = ""  # the token of the last process found dead
        self._seen: tuple[float, str, object] = (0.0, "", None)  # since when, whose, which position
        self._lag_before: tuple[float, int] | None = None

    @property
    def argv(self) -> list[str]:
        return list(self._argv() if callable(self._argv) else self._argv)

    def claim(self) -> str:
        """Adopt the process for this owner, or start it; returns a line for the log.

        If it has a successor, and does not run itself, that takes its place.
        """
        self._successor.adopt()
        if (taken := self._successor.take_place()) is not None:
            return f"SUCCEEDED {self.name}, by pid {taken.pid}, log {self.log}"
        record, started = detached.ensure(
            self.name, self.argv, self.environment(), log=self.log, run=self.run, owner=self.owner
        )
        verb = "STARTED" if started else f"ADOPTED (runs since {record.started_at})"
        return f"{verb} {self.name}, pid {record.pid}, log {self.log}"

    def poll(self) -> Iterator[str]:
        """Look once and do what is needed; yields lines for the log, and none while all is well.

        Raises Superseded, CrashLoop and what a start can raise.
        """
        record = detached.read(self.name, self.run)
        if record is not None and record.owner != self.owner:
            raise Superseded(f"{self.name} belongs to {record.owner or 'nobody'} now, not to {self.owner}")
        now = time.monotonic()
        if record is not None and detached.alive(record):
            if (argv := self.argv) == record.argv:
                yield from self._successor.dismiss("it is not wanted any more")
            else:
                yield from self._successor.prepare(argv, self.environment)
                if not self._successor.awaited:
                    yield from self._replace(record)
                    return
            if not self._stuck(record, now):
                return
            yield f"STUCK {self.name}, pid {record.pid}: still for {self.stuck_after:.0f} s, lag grows"
            detached.stop(record, STOP_GRACE, run=self.run, owner=self.owner)
        elif record is not None and record.token != self._mourned:
            self._mourned = record.token
            succeeded = self._successor.lives
            yield f"DIED {self.name}, pid {record.pid}; the end of its log:"
            yield from tail(self.log, whole=succeeded)
            self._not_before = now + (0.0 if succeeded else self._delay(record))
        if now < self._not_before:
            return
        if record is None:  # it was stopped on purpose, as `sluice down` does: nothing is wrong
            yield self.claim()
            return
        self._restarts.append(now)
        yield f"RESTART {self.restarted_lately} of {self.name}: {self.claim()}"

    def _replace(self, record: detached.ProcessRecord) -> Iterator[str]:
        yield f"RESTART of {self.name}: it is to run another command"
        detached.stop(record, STOP_GRACE, run=self.run, owner=self.owner)
        yield self.claim()

    def restart(self, why: str) -> Iterator[str]:
        """Stop the process and start it again; yields lines for the log."""
        yield f"RESTART of {self.name}: {why}"
        self.stop()
        yield self.claim()

    @property
    def restarted_lately(self) -> int:
        """How often `poll` restarted the process in the last LATELY seconds."""
        return lately(self._restarts)

    @property
    def successor_died_lately(self) -> int:
        """How often a process that was to take its place died lately."""
        return self._successor.died_lately

    def stop(self) -> bool:
        """Stop the process, and its successor, if this owner has it; returns whether anything was stopped."""
        record = detached.read(self.name, self.run)
        if record is not None and record.owner != self.owner:
            return False
        with ThreadPoolExecutor(1) as pool:
            dismissed = pool.submit(list, self._successor.dismiss("its process is stopped, too"))
            stopped = record is not None and detached.stop(record, STOP_GRACE, run=self.run, owner=self.owner)
            return bool(dismissed.result()) or stopped

    def _delay(self, dead: detached.ProcessRecord) -> float:
        """How long to wait before the next start. Raises CrashLoop."""
        lived = (datetime.now(UTC) - datetime.fromisoformat(dead.started_at)).total_seconds()
        self._early_deaths = self._early_deaths + 1 if lived < STEADY else 0
        if self._early_deaths > EARLY_DEATHS:
            times = f"{self._early_deaths} times within {STEADY:.0f} s of its start"
            raise CrashLoop("\n".join([f"{self.name} died {times}, see {self.log}:", *tail(self.log)]))
        return min(LONGEST_DELAY, 2.0 ** (self._early_deaths - 2)) if self._early_deaths > 1 else 0.0

    def _stuck(self, record: detached.ProcessRecord, now: float) -> bool:
        """Whether the position stayed the same for `stuck_after` seconds while the lag grew.

        The lag is compared with its value at least a quarter of that time ago. A process that has nothing to
        do does not stand still: the time counts from when that was last seen.
        """
        position = self.position()
        if self._seen[1:] != (record.token, position):
            self._seen, self._lag_before = (now, record.token, position), None
        if position is None or now - self._seen[0] < self.stuck_after:
            return False
        if self._lag_before is not None and now - self._lag_before[0] < self.stuck_after / 4:
            return False
        lag, before = self.lag(), self._lag_before
        if lag == 0:
            self._seen, self._lag_before = (now, record.token, position), None
            return False
        self._lag_before = None if lag is None else (now, lag)
        return lag is not None and before is not None and lag > before[1]


def tail(log: Path, lines: int = TAIL_LINES, *, whole: bool = False) -> list[str]:
    """The last lines of a log. whole: also those from before its last process was started."""
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 8192))
            end = source.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    starts = [number for number, line in enumerate(end) if line.startswith(detached.START_MARK)]
    return end[starts[-1] if starts and not whole else 0 :][-lines:]
