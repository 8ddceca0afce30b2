"""Processes that outlive their starter and are found again through a record on disk.

``<run>/<name>.json`` identifies the process exactly. It holds its pid, its start time and the kernel's boot
id (a pid is reused, the three together are not), and a random token that the process and all its children
carry in their environment. A process is started under a lock, so two starters cannot start it twice. The
record is written before the process is made, so a starter that dies half-way leaves no process that cannot be
found.

A supervisor *owns* its process. The next supervisor that adopts the process becomes its owner, and an order
to stop it on behalf of the former owner then does nothing: Airflow calls a trigger's ``on_kill`` late, if at
all.

Linux only: sessions, and start times in ticks of the kernel's clock.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
from filelock import FileLock

from sluice.runtime.files import write_whole

TOKEN = "SLUICE_PROCESS_TOKEN"  # noqa: S105 - the name of the variable
LOG_BYTES = 16 << 20  # a larger log is rotated at the next start: with one restart a day, a week is kept
LOGS_KEPT = 4
PROGRESS_SUFFIX = ".progress.json"  # files beside the records that say how far a job is (`stack.progress`)
START_MARK = "--- "  # each start writes a line to the log that begins with this
_POLL = 0.1


class ProcessError(RuntimeError):
    """A detached process could not be started or stopped."""


class AlreadyRunning(ProcessError):
    """The process already runs; ``record`` identifies it."""

    def __init__(self, record: ProcessRecord) -> None:
        super().__init__(f"{record.name!r} already runs as pid {record.pid}: adopt it, or stop it first")
        self.record = record


@dataclass(frozen=True)
class ProcessRecord:
    """What identifies one running process. ``pid`` is 0 while it is being started."""

    name: str
    pid: int
    start_time: int  # clock ticks between the boot and the start
    boot: str
    token: str
    argv: list[str]
    started_at: str  # ISO 8601, UTC
    owner: str = ""


def run_dir() -> Path:
    """Where this instance keeps its records."""
    from sluice.runtime.settings import get_settings

    return get_settings().home / "run"


def names(run: Path | None = None) -> list[str]:
    """The names of all records."""
    found = (run or run_dir()).glob("*.json")
    return sorted(path.stem for path in found if not path.name.endswith(PROGRESS_SUFFIX))


def read(name: str, run: Path | None = None) -> ProcessRecord | None:
    """The last record of that name, whether its process lives or not; None if there is none."""
    path = (run or run_dir()) / f"{name}.json"
    try:
        record = ProcessRecord(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise ProcessError(
            f"{path} is not a process record ({error}): see what runs, then delete it"
        ) from error
    if record.pid == 0 and (leader := _leader(record.token)):  # its starter died before it wrote the pid
        record = replace(record, pid=leader, start_time=_start_time(leader))
    return record


def adopt(name: str, run: Path | None = None, owner: str | None = None) -> ProcessRecord | None:
    """The process of that name if it is alive; ``owner`` owns it from now on (None: no change)."""
    run = run or run_dir()
    with _locked(name, run):
        record = read(name, run)
        if record is None or not alive(record):
            return None
        if owner is not None and owner != record.owner:
            record = replace(record, owner=owner)
            _write(record, run)
        return record


def alive(record: ProcessRecord | None) -> bool:
    """Whether exactly this process still runs: not a zombie, not another process under its pid."""
    if record is None or record.pid <= 0 or record.boot != _boot():
        return False
    child = _children.get(record.pid)
    if child is not None and child.poll() is not None:  # it is our own child, and poll() has reaped it
        _children.pop(record.pid, None)  # another thread may have seen it, too
        return False
    return _runs(record.pid) and _start_time(record.pid) == record.start_time


def start(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    *,
    run: Path | None = None,
    owner: str = "",
    rotate: bool = True,
) -> ProcessRecord:
    """Start ``argv`` as a session leader, detached from this process, and record it.

    env: added to what it inherits (`runtime.inherited`). log: gets both outputs; default
    ``<home>/logs/<name>.log``. rotate: whether a large log is put aside before. What is left of a dead
    predecessor (such as a Python driver without its JVM) is killed first.
    Raises AlreadyRunning (with the record) or ProcessError.
    """
    run = run or run_dir()
    log = log or run.parent / "logs" / f"{name}.log"
    with _locked(name, run):
        before = read(name, run)
        if before is not None:
            if alive(before):
                raise AlreadyRunning(before)
            _signal(_members(before), signal.SIGKILL)
        record = ProcessRecord(
            name, 0, 0, _boot(), secrets.token_hex(8), list(argv), datetime.now(UTC).isoformat(), owner
        )
        _write(record, run)
        _rotate(log, rotate)
        with log.open("ab") as out:
            out.write(f"{START_MARK}{record.started_at} starting {name}: {' '.join(argv)}\n".encode())
            out.flush()
            try:
                child = subprocess.Popen(
                    record.argv,
                    env=_environment(record, env or {}, run),
                    cwd=cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessError(f"cannot start {name!r}: {argv[0]}: {error.strerror}") from error
        _children[child.pid] = child
        record = replace(record, pid=child.pid, start_time=_start_time(child.pid))
        _write(record, run)
        return record


def _environment(record: ProcessRecord, env: Mapping[str, str], run: Path) -> dict[str, str]:
    """The process's variables; its secrets are in a file, which stays: the record may get another name."""
    from sluice.runtime import inherited

    return {**inherited.separated(env, run / f"{record.name}.given"), TOKEN: record.token}


def ensure(
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    *,
    run: Path | None = None,
    owner: str = "",
    rotate: bool = True,
) -> tuple[ProcessRecord, bool]:
    """Adopt the process of that name if it runs, else start it; and whether it was started."""
    while True:
        record = adopt(name, run, owner)
        if record is not None:
            return record, False
        try:
            return start(name, argv, env, cwd, log, run=run, owner=owner, rotate=rotate), True
        except AlreadyRunning:  # another starter came between the two calls
            continue


def rename(name: str, to: str, *, run: Path | None = None, owner: str = "") -> ProcessRecord | None:
    """Let the living process of one name have another one from now on; its record there.

    What is left of the last process of that name is killed. None, and nothing happens, if no process has the
    first name, or one has the second.
    """
    run = run or run_dir()
    with _locked(to, run), _locked(name, run):
        record, before = read(name, run), read(to, run)
        if record is None or not alive(record) or alive(before):
            return None
        if before is not None:
            _signal(_members(before), signal.SIGKILL)
        record = replace(record, name=to, owner=owner)
        _write(record, run)
        forget(name, run)
        return record


def forget(name: str, run: Path) -> None:
    """Remove a record; its process, if it lives, must have another one."""
    (run / f"{name}.json").unlink(missing_ok=True)


def stop(
    record: ProcessRecord, grace: float = 10.0, *, run: Path | None = None, owner: str | None = None
) -> bool:
    """Send SIGTERM to the process, and when it has ended to what it left; after ``grace`` seconds SIGKILL.

    It ends its children itself: a driver needs its JVM until the batch under way is committed.
    If ``owner`` is given, do so only if it still owns the process. Returns whether anything was stopped.
    """
    run = run or run_dir()
    if owner is not None:
        now = read(record.name, run)
        if now is None or now.token != record.token or now.owner != owner:
            return False
    found = _members(record)
    deadline = time.monotonic() + grace
    if alive(record):
        _signal([record.pid], signal.SIGTERM)
    while time.monotonic() < deadline and alive(record):
        time.sleep(_POLL)
    if not alive(record):
        _signal(_members(record), signal.SIGTERM)
    while time.monotonic() < deadline and _members(record):
        time.sleep(_POLL)
    _signal(_members(record), signal.SIGKILL)
    deadline = time.monotonic() + 5
    while alive(record):
        if time.monotonic() > deadline:
            raise ProcessError(f"{record.name!r} (pid {record.pid}) survives SIGKILL: it hangs in the kernel")
        time.sleep(_POLL)
    with _locked(record.name, run):
        now = read(record.name, run)
        if now is not None and now.token == record.token:
            forget(record.name, run)
    return bool(found)


_children: dict[int, subprocess.Popen[bytes]] = {}  # kept so that they can be reaped


@contextlib.contextmanager
def _locked(name: str, run: Path) -> Iterator[None]:
    run.mkdir(parents=True, exist_ok=True)
    with FileLock(run / f"{name}.lock"):
        yield


def _write(record: ProcessRecord, run: Path) -> None:
    write_whole(run / f"{record.name}.json", json.dumps(asdict(record), indent=1))


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def _start_time(pid: int) -> int:
    """Ticks between the boot and the process's start; 0 if the process is gone.

    psutil gives the time of day instead, which changes when the clock is set.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _carriers(token: str) -> Iterator[int]:
    """The pids whose environment carries the token.

    The environment of other users' processes cannot be read, but those are not ours either.
    """
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(TOKEN) == token:
                yield process.pid


def _leader(token: str) -> int | None:
    for pid in _carriers(token):
        with contextlib.suppress(ProcessLookupError):
            if os.getsid(pid) == pid:
                return pid
    return None


def _members(record: ProcessRecord) -> list[int]:
    """The living processes that belong to the record, its leader first.

    They are found by token, not by process group, because the group's number may be reused once the leader is
    dead.
    """
    found = {pid for pid in _carriers(record.token) if _runs(pid)}
    if alive(record):
        found.add(record.pid)
    return sorted(found, key=lambda pid: (pid != record.pid, pid))


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _rotate(log: Path, rotate: bool) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    if not rotate or not log.exists() or log.stat().st_size < LOG_BYTES:
        return
    for n in range(LOGS_KEPT - 1, 0, -1):
        older = log.with_name(f"{log.name}.{n}")
        if older.exists():
            older.replace(log.with_name(f"{log.name}.{n + 1}"))
    log.replace(log.with_name(f"{log.name}.1"))
