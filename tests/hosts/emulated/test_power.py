"""What loses its power ends, whatever begins meanwhile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sluice_hosts.emulated import power
from sluice_lab.waiting import until

#: A process that begins others without a pause, as a keeper begins its agent.
BEGINS = "while :; do sleep 30 & done"


@pytest.mark.slow
def test_what_begins_while_the_power_goes_ends_too(tmp_path: Path) -> None:
    own = {**os.environ, power.HOME: str(tmp_path)}
    with subprocess.Popen(["sh", "-c", BEGINS], env=own):
        until(lambda: len(power.processes(tmp_path, "sleep")) > 20, poll=0.01)
        power.switch_off(tmp_path)
        assert not power.processes(tmp_path)
