"""PostgreSQL below a directory that only root may enter, like one made by `mktemp -d`."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from sluice.runtime import jvm
from sluice.runtime.settings import SETTINGS_FILE, Settings
from sluice.stack.entry import check
from tests.waiting import SECONDS, until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has to give up being root"),
]


@pytest.fixture
def private(tmp_path: Path) -> dict[str, str]:
    """The environment of an instance with checkout and binaries below a mode 0700 directory."""
    tmp_path.chmod(0o700)
    (tmp_path / "include").mkdir()
    shutil.copy(SETTINGS_FILE, tmp_path / "include")
    shutil.copytree(jvm.LIB / "postgres", tmp_path / "lib" / "postgres")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = min(free.getsockname()[1], 60000) - 10
    own = {
        "SLUICE_ROOT": str(tmp_path),
        "SLUICE_LIB": str(tmp_path / "lib"),
        "SLUICE_INSTANCE": "private",
        "SLUICE_PORT_BASE": str(base),
    }
    return {**{name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}, **own}


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
