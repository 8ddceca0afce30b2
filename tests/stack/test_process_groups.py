"""The remains of a killed daemon are found, whatever it did to its environment."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import process_groups

pytestmark = pytest.mark.slow

DAEMON_THAT_DIES = """
import subprocess, sys
from sluice.runtime.settings import Settings
from sluice.stack import process_groups
process_groups.remember(Settings(instance="test", home=sys.argv[1]), "airflow-scheduler")
subprocess.Popen(["sleep", "60"], env={})  # as bare as after setproctitle
"""


def test_a_child_without_environment_is_found_by_its_group(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path)
    daemon = [sys.executable, "-c", DAEMON_THAT_DIES, str(tmp_path)]
    subprocess.run(daemon, check=True, start_new_session=True, stdout=subprocess.DEVNULL)
    assert process_groups.of_daemon(settings, "airflow-triggerer") == []
    (left,) = process_groups.of_daemon(settings, "airflow-scheduler")
    assert left.name() == "sleep"
    assert process_groups.of_daemon(settings) == [left]
    process_groups.stop([left])
    assert not left.is_running()


LARGE = """
import socket, sys
from sluice.runtime.settings import Settings
from sluice.stack import process_groups
process_groups.remember(Settings(instance="test", home=sys.argv[1]), "kafka")
memory = b"x" * (1 << 30)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


def test_a_killed_daemon_is_found_until_its_port_is_free(tmp_path: Path) -> None:
    """The kernel first frees its memory, environment included; a gigabyte takes a while."""
    settings = Settings(instance="test", home=tmp_path)
    daemon = subprocess.Popen(
        [sys.executable, "-c", LARGE, str(tmp_path)],
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with daemon:
        assert daemon.stdout is not None
        port = int(daemon.stdout.readline())
        daemon.kill()
        while process_groups.of_daemon(settings):
            pass
        socket.create_server(("127.0.0.1", port)).close()
