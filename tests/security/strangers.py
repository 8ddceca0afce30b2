"""Runs the attacker as another user of the host, in the host's network."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.environment import DAEMON
from sluice.stack.networking import network
from sluice.stack.process_groups import of_daemon
from tests.security.attacker.report import Finding, Outcome

BLOCK = 600  # ports above the instance's base
RUN_SECONDS = 500.0
PYTHONS = ("/usr/bin/python3.11", "/usr/bin/python3", os.path.realpath(sys.executable))
NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 11))"
SOCKET = re.compile(r"socket:\[(\d+)\]")
#: Says with which status Airflow answers a request with these headers.
ASK = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=60)
connection.request("GET", "/api/v2/dags", headers=json.loads(sys.argv[1]))
print(connection.getresponse().status)
"""
UNUSED_UID = 64999  # for a machine on which PostgreSQL runs as nobody


@dataclass
class Stranger:
    """Runs programs as another user of the machine, in the host's network."""

    settings: Settings

    def run(self, script: str, *arguments: str, **given: object) -> str:
        """What the program prints. `script`: Python, with {port} of Airflow's door and what else is given."""
        done = subprocess.run(
            [*self._command(script, given), *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout.strip()

    @contextmanager
    def running(self, script: str, **given: object) -> Iterator[subprocess.Popen[str]]:
        """The program as long as the context lasts."""
        with subprocess.Popen(
            self._command(script, given), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            yield process
            process.kill()

    def _command(self, script: str, given: dict[str, object]) -> list[str]:
        return [*outside(), "-c", script.format(port=self.settings.port("airflow"), **given)]


def attack(settings: Settings, routes: Sequence[tuple[str, str]]) -> list[Finding]:
    """Let the attacker try everything; what came of it. Skips the test where there can be no attacker."""
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    host = _host_network()
    with _readable_by_all() as folder:
        command = [*_as_stranger(host), _python(host), "-m", "attacker"]
        done = subprocess.run(
            command,
            input=json.dumps(target(settings, routes)),
            cwd=folder,
            env={"PATH": os.defpath},
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads(done.stdout)
    assert said["failed"] == {}, said["failed"]
    return [Finding(**{**row, "outcome": Outcome(row["outcome"])}) for row in said["findings"]]


def outside(*, stranger: bool = True, inside: bool = False) -> list[str]:
    """What comes before the arguments of a Python in the host's network, as a stranger or as this very user.

    inside: the stranger is in this process's network, where the kernel lets none in. Skips the test where
    there can be no stranger.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can run a program as another user")
    host = _host_network()
    if not stranger:
        return ["nsenter", f"--net={host}", "--", sys.executable]
    command = [*_as_stranger(host), _python(host)]
    return command[3:] if inside else command


def target(settings: Settings, routes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """What the attacker is told (tests/security/attacker/target.py)."""
    processes = list(_processes(settings))
    return {
        "ports": {name: settings.port(name) for name in settings.port_offsets},
        "block": [settings.port_base, BLOCK],
        "home": str(settings.home),
        "pids": [process.pid for process in processes],
        "inodes": sorted(_sockets(processes)),
        "routes": routes,
        "since": (settings.home / "run" / "supervisord.pid").stat().st_mtime - 60,
        "user": settings.hive.user,
        "people": [settings.airflow.user],
    }


def _processes(settings: Settings) -> Iterator[psutil.Process]:
    """The daemons, their jobs, the supervisor and the gateway."""
    marks = (f"{settings.home}/", f"{settings.home}:", str(network.folder(settings)))
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    daemons = {process.pid for process in of_daemon(settings)}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            variables = process.environ()
            gateway = "sluice.stack." in " ".join(process.cmdline())
            ours = variables.get("SLUICE_INSTANCE") == settings.instance
            named = any(mark in variables.get(DAEMON, "") for mark in marks) or any(
                mark in " ".join(process.cmdline()) for mark in marks
            )
            if process.pid not in spared and (process.pid in daemons or named or (gateway and ours)):
                yield process


def _sockets(processes: Iterable[psutil.Process]) -> set[int]:
    """The inodes of their sockets."""
    found = set()
    for process in processes:
        with suppress(OSError):
            for handle in Path(f"/proc/{process.pid}/fd").iterdir():
                with suppress(OSError):
                    if match := SOCKET.fullmatch(os.readlink(handle)):
                        found.add(int(match[1]))
    return found


def _host_network() -> str:
    """The host's network: the first process's, or that of the outermost ancestor that shows its own.

    The tests themselves may be in the instance's network.
    """
    ancestors = [parent.pid for parent in psutil.Process().parents()]
    for pid in (1, *reversed(ancestors), os.getpid()):
        path = f"/proc/{pid}/ns/net"
        with suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            return path
    raise FileNotFoundError("no process shows its network namespace")


def _as_stranger(host: str) -> list[str]:
    """What comes before a command so that nobody runs it in the host's network."""
    nobody = pwd.getpwnam("nobody")
    uid, gid = nobody.pw_uid, nobody.pw_gid
    with suppress(psutil.Error):
        if any(
            process.name() == "postgres" and process.uids().real == uid for process in psutil.process_iter()
        ):
            uid = gid = UNUSED_UID
    drop = [f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
    return [
        "nsenter",
        f"--net={host}",
        "--",
        "setpriv",
        *drop,
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--",
    ]


def _python(host: str) -> str:
    """A Python that nobody may run: the environment's own may lie in somebody's home."""
    for python in PYTHONS:
        if (
            subprocess.run([*_as_stranger(host), python, "-c", NEW_ENOUGH], cwd="/", check=False).returncode
            == 0
        ):
            return python
    pytest.skip(f"nobody may run no Python from 3.11 on: tried {', '.join(PYTHONS)}")


@contextmanager
def _readable_by_all() -> Iterator[str]:
    """A folder with a copy of the attacker."""
    with tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        copy = Path(folder) / "attacker"
        shutil.copytree(
            Path(__file__).with_name("attacker"), copy, ignore=shutil.ignore_patterns("__pycache__")
        )
        for path in (Path(folder), copy, *copy.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield folder
