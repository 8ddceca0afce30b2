"""What a host's kernel says of its processes and of itself, read from /proc by one command."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: Runs a command on a host and returns what it printed.
Run = Callable[..., str]

LOCAL_SECONDS = 60
_SCRIPT = (
    "getconf CLK_TCK; getconf _NPROCESSORS_ONLN; cat /proc/uptime; head -n 1 /proc/stat; "
    'for pid; do cat "/proc/$pid/stat" 2>/dev/null || echo; done'
)
#: Fields of /proc/<pid>/stat behind the command's name, and of the first line of /proc/stat (proc(5)).
_STATE, _UTIME, _STIME, _START = 0, 11, 12, 19
_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ = 1, 2, 3, 6, 7
#: A host may answer anything; what is beyond these is no reading.
_MOST, _DIGITS, _MOST_CORES = 10**15, 16, 1 << 16


class ReadingError(ValueError):
    """What a host printed cannot be read."""


@dataclass(frozen=True)
class Process:
    """identity: its number and its start, which no later process has. cpu, age: in seconds."""

    identity: str
    cpu: float
    age: float


@dataclass(frozen=True)
class Machine:
    """cores: processors that are online. busy: seconds in which they worked, in all, since the boot."""

    cores: int
    busy: float
    processes: dict[int, Process]  # by number; those that are gone are left out


def here(*command: str, seconds: float = LOCAL_SECONDS) -> str:
    """Run a command on this machine."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return done.stdout


def read(run: Run, pids: Sequence[int]) -> Machine:
    """The machine, and those of its processes. Raises ReadingError, and what `run` raises."""
    return parse(run("sh", "-c", _SCRIPT, "reading", *map(str, pids)), pids)


def parse(text: str, pids: Sequence[int]) -> Machine:
    """What the command printed. Raises ReadingError."""
    try:
        ticks, cores, uptime, machine, *lines = text.split("\n")
        second, up, columns = max(_whole(ticks), 1), _whole(uptime.partition(".")[0]), machine.split()
        busy = sum(_whole(columns[n]) for n in (_USER, _NICE, _SYSTEM, _IRQ, _SOFTIRQ))
        found = {pid: _process(pid, line, second, up) for pid, line in zip(pids, lines, strict=False) if line}
        there = {pid: each for pid, each in found.items() if each}
        return Machine(max(_whole(cores, _MOST_CORES), 1), busy / second, there)
    except (ValueError, IndexError) as error:
        raise ReadingError(f"no reading of processes: {text[:200]!r}") from error


def _whole(text: str, most: int = _MOST) -> int:
    """A number. Raises ValueError for one that no kernel says."""
    if len(text) > _DIGITS or not 0 <= int(text) <= most:
        raise ValueError(f"no such number: {text[:20]!r}")
    return int(text)


def _process(pid: int, line: str, second: int, up: int) -> Process | None:
    fields = line.rpartition(")")[2].split()
    if fields[_STATE] in ("Z", "X"):
        return None
    start = _whole(fields[_START])
    cpu = (_whole(fields[_UTIME]) + _whole(fields[_STIME])) / second
    return Process(f"{pid}.{start}", cpu, max(0.0, up - start / second))
