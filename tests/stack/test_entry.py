"""The entry point keeps daemons that share a container, and ends with the container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.stack import entry
from sluice.stack.log import DaemonLog
from sluice_lab.waiting import until
from tests.stack.file_systems import FakeDisks

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


def test_a_daemon_waits_for_space_on_its_own_disk_and_on_those_of_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "POLL_SECONDS", 0.01)
    found, settings = FakeDisks(monkeypatch), Settings(instance="test")
    found.are(home=50, datanode=0.1)
    entry.wait_for_space(settings, "kafka", DaemonLog("kafka"))
    assert capsys.readouterr().out == ""
    waiting = threading.Thread(target=entry.wait_for_space, args=(settings, "hbase", DaemonLog("hbase")))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    found.are(home=50, datanode=50)
    waiting.join(5)
    assert not waiting.is_alive()
    (said,) = capsys.readouterr().out.splitlines()
    assert said.endswith("[hbase] waiting for space: data/datanode has 0.10 of 100.0 GiB left")


def test_a_store_with_damage_in_the_middle_of_a_file_is_not_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(settings: Settings, name: str) -> None:
        raise MiddleDamage(Path("/x/edits_inprogress_1"), 8, 40, 8)

    monkeypatch.setattr(entry, "run", refused)
    assert entry.main(["run", "namenode"]) == 1
    assert capsys.readouterr().err.startswith("/x/edits_inprogress_1 is damaged at byte 8")
