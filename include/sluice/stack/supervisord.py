"""The instance's supervisord: how to configure, start and call it.

It listens on a unix socket of mode 0600 and on no port. docs/decisions/0001-supervision.md says why
this supervisor was chosen.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import Faults, SupervisorTransport

from sluice.runtime.settings import Settings, given
from sluice.stack import releases, templating
from sluice.stack.daemon import Daemon
from sluice.stack.environment import own_environment

START_SECONDS = 15.0
STOP_SECONDS = 90.0
STOPPING_SECONDS = 0.1
# sun_path holds 108 bytes, and supervisord binds a temporary name that is longer than its socket's.
LONGEST_SOCKET = 90
# In these states a daemon has a process, or will have one again by itself.
LIVING = ("STARTING", "RUNNING", "BACKOFF", "STOPPING")


class SupervisorDown(ConnectionError):
    """The instance's supervisord does not run."""

    def __init__(self, settings: Settings) -> None:
        name = settings.instance
        super().__init__(f"nothing of instance {name!r} runs: start it with `sluice --instance {name} up`")


class ForeignSocket(PermissionError):
    """Another user made the directory in which supervisord's socket must lie."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder} is not this user's alone: another user may answer as the supervisor there"
        )


class SettingsChanged(RuntimeError):
    """The running daemons were started with settings other than this process's."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(names)}: the instance was started with another value, and a running daemon does not "
            "take on a new one. Stop it first: `sluice down`"
        )


@dataclass(frozen=True)
class Program:
    """What supervisord says about one daemon."""

    name: str
    state: str
    pid: int
    started: int
    ended: int
    message: str


def socket_path(settings: Settings) -> Path:
    """Where supervisord listens. Raises ForeignSocket."""
    path = settings.home / "run" / "supervisor.sock"
    if len(str(path)) <= LONGEST_SOCKET:
        return path
    name = hashlib.sha256(str(settings.home).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.filemode(found.st_mode) != "drwx------":
        raise ForeignSocket(folder)
    return folder / "supervisor.sock"


def configure(settings: Settings, daemons: Sequence[Daemon]) -> Path:
    for directory in ("run", "logs", "tmp", "data"):
        (settings.home / directory).mkdir(parents=True, exist_ok=True)
    return templating.write(
        settings,
        "supervisord.conf",
        settings.home / "conf" / "supervisord.conf",
        daemons=daemons,
        python=sys.executable,
        socket=socket_path(settings),
    )


def start(settings: Settings, daemons: Sequence[Daemon]) -> None:
    """Start supervisord, which starts every daemon.

    If it already runs, it takes over the new configuration and starts the daemons that are stopped. Raises
    SettingsChanged, SupervisorDown.
    """
    config = configure(settings, daemons)
    overrides = settings.home / "conf" / "overrides.json"
    if running(settings):
        before = json.loads(overrides.read_text()) if overrides.exists() else {}
        if changed := sorted(name for name, _ in before.items() ^ given().items()):
            raise SettingsChanged(list(dict.fromkeys(changed)))
        update(settings)
        return
    overrides.touch(mode=0o600)
    overrides.write_text(json.dumps(given()))
    releases.note_start(settings)
    socket_path(settings).unlink(missing_ok=True)
    # -P: not from the current directory, which may be another user's.
    argv = [sys.executable, "-P", "-m", "supervisor.supervisord", "-c", str(config)]
    subprocess.run(
        argv, check=True, env=own_environment(settings), cwd=settings.root, stdin=subprocess.DEVNULL
    )
    deadline = time.monotonic() + START_SECONDS
    while not running(settings):
        if time.monotonic() > deadline:
            raise SupervisorDown(settings)
        time.sleep(0.1)


def stop(settings: Settings) -> None:
    """Stop supervisord with all that it still runs; wait STOP_SECONDS at most until it is gone."""
    _rpc(settings).shutdown()
    deadline = time.monotonic() + STOP_SECONDS
    while running(settings) and time.monotonic() < deadline:
        time.sleep(0.2)


def pid(settings: Settings) -> int | None:
    """The pid of supervisord itself; None if it does not run."""
    try:
        return int(_rpc(settings).getPID())
    except SupervisorDown:
        return None


def running(settings: Settings) -> bool:
    try:
        return _rpc(settings).getState()["statename"] in ("RUNNING", "RESTARTING")
    except SupervisorDown:
        return False


def programs(settings: Settings) -> dict[str, Program]:
    return {
        info["name"]: Program(
            name=info["name"],
            state=info["statename"],
            pid=info["pid"],
            started=info["start"],
            ended=info["stop"],
            message=info["description"],
        )
        for info in _rpc(settings).getAllProcessInfo()
    }


def start_program(settings: Settings, name: str) -> None:
    try:
        _rpc(settings).startProcess(name, False)
    except Fault as fault:
        if fault.faultCode != Faults.ALREADY_STARTED:
            raise


def stop_program(settings: Settings, name: str) -> None:
    """Stop the daemon and wait for its end; if it takes too long, supervisord sends SIGKILL."""
    rpc = _rpc(settings)
    try:
        rpc.stopProcess(name, False)
    except Fault as fault:
        if fault.faultCode not in (Faults.NOT_RUNNING, Faults.BAD_NAME):
            raise
        return
    # Not by a call that waits, because supervisord would poll without a pause and take a whole processor.
    while rpc.getProcessInfo(name)["statename"] == "STOPPING":
        time.sleep(STOPPING_SECONDS)


def update(settings: Settings) -> None:
    """Take over the configuration as it is in its file: start again what changed, and what is stopped."""
    supervisor = _rpc(settings)
    added, changed, removed = supervisor.reloadConfig()[0]
    for name in [*changed, *removed]:
        stop_program(settings, name)
        supervisor.removeProcessGroup(name)
    for name in [*added, *changed]:
        supervisor.addProcessGroup(name)
    for program in programs(settings).values():
        if program.state not in LIVING:
            start_program(settings, program.name)


class _Connection:
    """supervisord's XML-RPC methods, which raise SupervisorDown if the socket does not answer."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        transport = SupervisorTransport(None, None, f"unix://{socket_path(settings)}")
        self.proxy = ServerProxy("http://127.0.0.1", transport=transport)

    def __getattr__(self, method: str) -> Any:
        def call(*args: object) -> Any:
            try:
                return getattr(self.proxy.supervisor, method)(*args)
            except (FileNotFoundError, ConnectionError) as error:
                raise SupervisorDown(self.settings) from error

        return call


def _rpc(settings: Settings) -> _Connection:
    return _Connection(settings)
