"""A short run of chaos on the tests' platform: six faults of one seed, and every line counts once.

Kafka loses no bytes here, because other tests compare all of the instance's lines with its hops.
"""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from sluice.stack.environment import environment
from sluice_lab.chaos.draws import USUAL, FaultKind
from sluice_lab.chaos.front_ends import HOSTS, log_file
from sluice_lab.chaos.run import ChaosPlan, run
from sluice_lab.chaos.stores import TOPIC
from tests.e2e.running import COMMAND_SECONDS, TIMEOUT_SECONDS, Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TIMEOUT_SECONDS)]

DAYS = tuple(dt.date(2024, 8, 1) + dt.timedelta(days=n) for n in range(2))
FAULTS, SEED = 6, 15


@pytest.fixture
def noted(platform: Platform) -> Iterator[Platform]:
    """Other tests know of the lines, too, once they are written."""
    yield platform
    for day in DAYS:
        lines = [log_file(platform.settings.home, host, day) for host in HOSTS]
        found = [line for file in lines if file.exists() for line in file.read_text().splitlines()]
        platform.note(day, found)


def test_six_faults(noted: Platform) -> None:
    settings = noted.settings

    def nights(days: Sequence[dt.date]) -> list[str]:
        night = [sys.executable, str(settings.root / "jobs" / "nightly.py"), "--topic", TOPIC]
        for day in days:
            command = [*night, "--day", day.isoformat(), "--run-id", "chaos"]
            subprocess.run(command, env=environment(settings), check=True, timeout=COMMAND_SECONDS)
        return []

    kinds, longest = (FaultKind.KILL, FaultKind.STOP), {**USUAL, FaultKind.STOP: 10.0}
    plan = ChaosPlan(FAULTS, SEED, kinds, longest, rate=40, days=DAYS)
    report = run(settings, plan, nights, print)
    assert report.problems == []
    assert len(report.faults) == FAULTS
    assert (report.lost, report.doubled, report.differing) == (0, 0, 0), report.verdicts
    assert report.ok
