"""PostgreSQL of one's own: below a directory that only root may enter, and attacked before the log-in."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg2
import pytest

from sluice.runtime import jvm
from sluice.runtime.settings import SETTINGS_FILE, Settings
from sluice.stack.entry import check
from sluice_lab.bench.database import server
from sluice_lab.ports import port_base
from sluice_lab.waiting import SECONDS, until

pytestmark = pytest.mark.stack

#: Asks for TLS and for GSSAPI in turn. 16.10 answered each from within the last, until its stack ended.
ASKS = tuple(struct.pack("!II", 8, 80877103 + number) for number in (0, 1))
MOST_ASKED = 100_000
ASKING_SECONDS = 30.0


@pytest.fixture
def private(tmp_path: Path) -> dict[str, str]:
    """The environment of an instance with checkout and binaries below a mode 0700 directory."""
    tmp_path.chmod(0o700)
    (tmp_path / "include").mkdir()
    shutil.copy(SETTINGS_FILE, tmp_path / "include")
    shutil.copytree(jvm.LIB / "postgres", tmp_path / "lib" / "postgres")
    own = {
        "SLUICE_ROOT": str(tmp_path),
        "SLUICE_LIB": str(tmp_path / "lib"),
        "SLUICE_INSTANCE": "private",
        "SLUICE_PORT_BASE": str(port_base()),
    }
    return {**{name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}, **own}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to give up being root")
def test_it_runs_there_without_being_root(private: dict[str, str]) -> None:
    entry, home = [sys.executable, "-m", "sluice.stack"], Path(private["SLUICE_ROOT"]) / "var" / "private"
    with subprocess.Popen([*entry, "run", "postgres"], env=private, stdout=subprocess.DEVNULL) as server:

        def healthy() -> bool:
            assert server.poll() is None, "it died"
            base = int(private["SLUICE_PORT_BASE"])
            own = Settings(
                instance="private", home=home, port_base=base
            )  # with its password, once it is made
            return check(own, "postgres") is None

        try:
            until(healthy, what="it is healthy")
            subprocess.run([*entry, "health", "postgres"], env=private, check=True)
            assert psutil.Process(server.pid).uids().effective != 0
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(SECONDS)
    assert server.returncode == 0


def test_nobody_ends_it_before_the_log_in() -> None:
    with server("recursion") as own, closing(psycopg2.connect(own.postgres.url("postgresql"))) as bystander:
        address, asked = (own.postgres.host, own.postgres.port), 0
        deadline = time.monotonic() + ASKING_SECONDS
        with socket.create_connection(address, 10) as stranger, suppress(OSError):
            while asked < MOST_ASKED and time.monotonic() < deadline:
                stranger.sendall(ASKS[asked % 2])
                if stranger.recv(1) != b"N":  # it refuses, or is gone
                    break
                asked += 1
        assert asked < 5
        bystander.cursor().execute("SELECT 1")  # a crash of one server process ends all
