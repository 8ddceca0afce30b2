"""The platform's processes: what the kernel tells about them, and what it lets others do to them."""

from __future__ import annotations

import ctypes
import os
import re
import signal
from collections import Counter
from pathlib import Path

from .report import Outcome, Report
from .target import Target

NEW_NETWORK, SEIZE, DETACH = 0x4000_0000, 0x4206, 17
#: A long random-looking text that is said to be a secret, or the password in an address.
SECRET = re.compile(
    r"(?i)(?:passw(?:or)?d|secret|token|_key|credential)s?[\"']?[=: ]+[\"']?([A-Za-z0-9+/_=-]{20,})"
    r"|://[^/@\s:]+:([^/@\s]{8,})@"
)
PRIVATE = (
    "environ",
    "mem",
    "maps",
    "auxv",
    "stack",
    "syscall",
    "io",
    "root",
    "cwd",
    "exe",
    "fd",
    "map_files",
)
_libc = ctypes.CDLL(None, use_errno=True)


def processes(target: Target, report: Report) -> None:
    """Try each process in each way; equal outcomes are one finding."""
    seen: Counter[tuple[str, Outcome]] = Counter()
    for pid in target.pids:
        if not Path(f"/proc/{pid}").exists():
            continue
        _command_line(pid, report, seen)
        for name in PRIVATE:
            seen[f"/proc/<pid>/{name}", _look(Path(f"/proc/{pid}/{name}"))] += 1
        for kind in ("net", "user", "mnt"):
            seen[f"enter its {kind} namespace", _enter(pid, kind)] += 1
        seen["signal", _signal(pid)] += 1
        seen["trace", _trace(pid)] += 1
    for (what, outcome), times in sorted(seen.items()):
        report.add("processes", what, outcome, f"{times} processes")


def _command_line(pid: int, report: Report, seen: Counter[tuple[str, Outcome]]) -> None:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        seen["read the command line", Outcome.REFUSED] += 1
        return
    seen["read the command line", Outcome.ANSWERED] += 1
    if found := SECRET.search(line):
        report.add("processes", "a secret in a command line", Outcome.READ, f"pid {pid}: {found[0][:40]}")


def _look(path: Path) -> Outcome:
    try:
        if path.name in ("fd", "map_files"):
            os.listdir(path)
        elif path.name in ("root", "cwd", "exe"):
            os.readlink(path)
        elif path.name == "mem":
            os.close(os.open(path, os.O_RDONLY))
        else:
            path.read_bytes()
    except OSError:
        return Outcome.REFUSED
    return Outcome.READ


def _enter(pid: int, kind: str) -> Outcome:
    """A child tries, because a process cannot leave again what it entered."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            handle = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            status = 0 if _libc.setns(handle, 0) == 0 else 1
        finally:
            os._exit(status)
    return Outcome.EXECUTED if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 else Outcome.REFUSED


def _signal(pid: int) -> Outcome:
    try:
        os.kill(pid, 0)
    except OSError:
        return Outcome.REFUSED
    return Outcome.CHANGED


def _trace(pid: int) -> Outcome:
    if _libc.ptrace(SEIZE, pid, None, None) != 0:
        return Outcome.REFUSED
    _libc.ptrace(DETACH, pid, None, signal.SIGCONT)
    return Outcome.EXECUTED
