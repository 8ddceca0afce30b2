"""What a host's kernel says of its processes and of itself, read from /proc by one command.

A unit's process leads a session (`setsid`), and what it starts is in that session: Spark's JVM and its Python
workers are a driver's. So the load of a unit is that of its session. A process that ended left its time with
its parent, so nothing of the sum is lost.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Runs a command on a host and returns what it printed.
Run = Callable[..., str]

#: A look at this machine holds up the look at the others.
LOCAL_SECONDS = 10.0
#: The processes of these numbers, and those of their sessions.
_FILTER = (
    "BEGIN { n = split(wanted, each); for (i = 1; i <= n; i++) is[each[i]] = 1 } "
    '{ line = $0; pid = $1; sub(/.*\\) /, ""); if (pid in is || $4 in is) print line }'
)
_SCRIPT = (
    "getconf CLK_TCK; getconf _NPROCESSORS_ONLN; cat /proc/uptime; head -n 1 /proc/stat; "
    f"cat /proc/[0-9]*/stat 2>/dev/null | awk -v wanted=\"$*\" '{_FILTER}'"
)
#: Fields of /proc/<pid>/stat behind the command's name, and of the first line of /proc/stat (proc(5)).
_STATE, _SESSION, _TIMES, _START = 0, 3, slice(11, 15), 19
_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ = 1, 2, 3, 6, 7
#: A host may answer anything; what is beyond these is no reading.
_MOST, _DIGITS, _MOST_CORES = 10**15, 16, 1 << 16


class ReadingError(ValueError):
    """What a host printed cannot be read."""


@dataclass(frozen=True)
class Process:
    """identity: its number and its start, which no later process has. cpu, age: in seconds.

    cpu: of it and of all processes of its session, also those that have ended.
    """

    identity: str
    cpu: float
    age: float


@dataclass(frozen=True)
class HostReading:
    """cores: processors that are online. busy: seconds in which they worked, in all, since the boot."""

    cores: int
    busy: float
    processes: dict[int, Process]  # by number; those that are gone are left out


def here(*command: str, seconds: float = LOCAL_SECONDS) -> str:
    """Run a command on this machine. Raises ReadingError if it does not end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise ReadingError(f"{command[0]} did not end within {seconds:g} s on this machine") from error
    return done.stdout


def read(run: Run, pids: Sequence[int]) -> HostReading:
    """The machine, and those of its processes. Raises ReadingError, and what `run` raises."""
    return parse(run("sh", "-c", _SCRIPT, "reading", *map(str, pids)), pids)


def parse(text: str, pids: Sequence[int]) -> HostReading:
    """What the command printed. Raises ReadingError."""
    try:
        ticks, cores, uptime, machine, *lines = text.split("\n")
        second, up, columns = max(_whole(ticks), 1), _whole(uptime.partition(".")[0]), machine.split()
        busy = sum(_whole(columns[n]) for n in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
        stats = [_Stat.of(line) for line in lines if line]
        leaders = {each.pid: each for each in stats if each.pid in pids and each.lives}
        found = {pid: _process(leader, stats, second, up) for pid, leader in leaders.items()}
        return HostReading(max(_whole(cores, _MOST_CORES), 1), busy / second, found)
    except (ValueError, IndexError) as error:
        raise ReadingError(f"no reading of processes: {text[:200]!r}") from error


def _whole(text: str, most: int = _MOST) -> int:
    """A number. Raises ValueError for one that no kernel says."""
    if len(text) > _DIGITS or not 0 <= int(text) <= most:
        raise ValueError(f"no such number: {text[:20]!r}")
    return int(text)


@dataclass(frozen=True)
class _Stat:
    """One line of /proc/<pid>/stat. ticks: its own, and those of children that it has waited for."""

    pid: int
    session: int
    lives: bool
    start: int
    ticks: int

    @classmethod
    def of(cls, line: str) -> _Stat:
        """Raises ValueError, IndexError."""
        fields = line.rpartition(")")[2].split()
        pid, session = _whole(line.partition(" ")[0]), _whole(fields[_SESSION])
        ticks = sum(map(_whole, fields[_TIMES]))
        return cls(pid, session, fields[_STATE] not in ("Z", "X"), _whole(fields[_START]), ticks)


def _process(leader: _Stat, stats: Sequence[_Stat], second: int, up: int) -> Process:
    ticks = sum(each.ticks for each in stats if leader.pid in (each.pid, each.session))
    age = max(0.0, up - leader.start / second)
    return Process(f"{leader.pid}.{leader.start}", ticks / second, age)
