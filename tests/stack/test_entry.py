"""The entry point keeps daemons that share a container, and ends with the container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice_lab.waiting import until

pytestmark = pytest.mark.slow

NAMES = ("airflow-scheduler", "airflow-triggerer")
SECONDS = 300.0


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Both daemons in a home of their own, where they wait for a PostgreSQL that never comes."""
    variables = {**os.environ, "SLUICE_HOME": str(tmp_path / "home"), "SLUICE_NETWORK": "host"}
    variables["SLUICE_PORT_BASE"] = "45000"
    log = tmp_path / "log"
    with log.open("wb") as out:
        argv = [sys.executable, "-m", "sluice.stack", "run", *NAMES]
        running = subprocess.Popen(argv, env=variables, stdout=out, stderr=subprocess.STDOUT)
    yield running, log
    if running.poll() is None:
        for process in (*psutil.Process(running.pid).children(recursive=True), running):
            process.kill()
        running.wait()


def test_each_waits_and_is_started_again(shared: tuple[subprocess.Popen[bytes], Path]) -> None:
    running, log = shared
    waiting = [f"[{name}] waiting for postgres" for name in NAMES]
    until(lambda: all(line in log.read_text() for line in waiting), what="both wait")
    first, other = psutil.Process(running.pid).children()
    first.kill()

    def back() -> bool:
        there = set(psutil.Process(running.pid).children())
        return len(there) == len(NAMES) and first not in there

    until(back, what="the killed one is back")
    assert other.is_running()


def test_both_end_with_it(shared: tuple[subprocess.Popen[bytes], Path]) -> None:
    running, log = shared
    until(lambda: len(psutil.Process(running.pid).children()) == len(NAMES), what="both are started")
    children = psutil.Process(running.pid).children()
    running.send_signal(signal.SIGTERM)
    until(lambda: running.poll() is not None, what=log.read_text())
    assert not [child for child in children if child.is_running()]
