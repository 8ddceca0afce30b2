"""The whole platform, running under Airflow in the test instance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack.airflow.rest_api import Airflow
from sluice_lab.waiting import until
from tests.e2e.beside import InstanceBeside, instance_beside
from tests.e2e.running import Platform

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


@pytest.fixture
def placing(platform: Platform) -> Iterator[None]:
    """The DAG `placement` runs; it has no moves to spend, so only what must move does."""
    with Airflow(platform.settings) as airflow:
        airflow.unpause("placement")
        yield
        airflow.pause("placement")
        for run in airflow.runs("placement"):
            if run.state == "running":
                airflow.fail("placement", run.id, "place")


@pytest.fixture
def beside(platform: Platform) -> Iterator[InstanceBeside]:
    """A second instance, which has nothing yet."""
    with instance_beside(platform.settings.root) as made:
        yield made
