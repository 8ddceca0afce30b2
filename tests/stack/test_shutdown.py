"""An instance whose data is deleted next is killed, whatever it does with SIGTERM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import process_groups, shutdown
from sluice.stack.environment import DAEMON

DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)",
]


@pytest.mark.slow
def test_an_abandoned_instance_leaves_no_process(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    job = detached.start("speed_layer", DEAF, run=tmp_path / "run", log=tmp_path / "log")
    mark = {DAEMON: process_groups.mark(settings, "kafka")}
    with subprocess.Popen(DEAF, env=mark, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        shutdown.abandon(settings)
        daemon.wait(5)
    assert not detached.alive(job)
    assert detached.names(tmp_path / "run") == []
    assert process_groups.of_daemon(settings) == []
