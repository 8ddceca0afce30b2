"""The DAG `speed_layer` lets a driver that moves run until the next one can count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings, get_settings
from sluice_hosts import placed
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import moving
from sluice_lab.waiting import until
from tests.hosts.jobs.conftest import machine, root, settings  # noqa: F401 - fixtures
from tests.hosts.jobs.test_succession import DRIVER, UNIT, hold, said, waits  # noqa: F401 - one is a fixture
from tests.repeated import repeated

pytestmark = pytest.mark.slow


@pytest.fixture
def crew(settings: Settings, machine: EmulatedHost, hold: Path) -> Iterator[Any]:  # noqa: F811
    """What the DAG's trigger polls. The driver counts here."""
    from sluice_airflow.supervised_process import supervisor

    get_settings.cache_clear()
    found = supervisor(DRIVER, [], "me", dict, 300.0)
    hold.unlink()
    found.claim()
    with repeated(lambda: list(found.poll()), 0.05):
        until(lambda: said(settings, DRIVER).state == "running", what="it counts here")
        hold.touch()
        yield found
    found.stop()
    get_settings.cache_clear()


def test_a_driver_runs_until_the_next_one_can_count(crew: Any, settings: Settings, hold: Path) -> None:  # noqa: F811
    here = moving.seen(settings, DRIVER)
    placed.update(settings, {UNIT: "h1"})
    there = waits(settings)
    assert moving.seen(settings, DRIVER) == here
    hold.unlink()
    until(lambda: moving.arrived(settings, DRIVER, "h1"), what="the next one takes its place")
    assert moving.seen(settings, DRIVER) == there
    assert crew.restarted_lately == 0
