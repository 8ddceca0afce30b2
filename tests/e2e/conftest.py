"""The whole platform, running under Airflow in the test instance."""

from __future__ import annotations

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from tests.e2e.running import Platform
from tests.waiting import until

JOBS = ("speed_layer", "archiver", "flume-web1", "flume-web2", "flume-collector1", "flume-collector2")
DEPLOYED_SECONDS = 180.0


@pytest.fixture(scope="session")
def platform(stack: Settings) -> Platform:
    """The platform once Airflow has started everything that runs for ever."""
    run = stack.home / "run"
    until(
        lambda: all(detached.alive(detached.read(job, run)) for job in JOBS),
        DEPLOYED_SECONDS,
        "Airflow starts all of " + ", ".join(JOBS),
    )
    ready = Platform(stack, stack.home / "faults")
    ready.drain()
    return ready
