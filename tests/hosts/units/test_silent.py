"""A collector of a host that falls silent runs on another one soon: real SSH servers, a stand-in's process.

`pytest -s` shows how long it took.
"""

from __future__ import annotations

import time

import pytest

from sluice.collection import deploy
from sluice.collection.local_machine import LocalMachine
from sluice.runtime.settings import Settings
from sluice_hosts.trust import broker
from sluice_hosts.units import measure
from sluice_hosts.units.agents import Collectors, Edges
from sluice_hosts.units.watch import UnitWatch
from sluice_lab.waiting import until
from tests.collection.conftest import settings  # noqa: F401 - a fixture
from tests.hosts.agents.test_moving import Hosts, two  # noqa: F401 - a fixture
from tests.tasks.database import sqlite

pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.mark.parametrize("loses_power", [False, True], ids=["hangs", "off"])
def test_a_collector_leaves_a_host_that_falls_silent(
    settings: Settings,  # noqa: F811
    two: Hosts,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    loses_power: bool,
) -> None:
    monkeypatch.setattr(broker, "admitted", lambda _: ["h1", "h2"])
    monkeypatch.setattr(measure, "speed_due", lambda *_: False)
    monkeypatch.setattr(LocalMachine, "command", lambda *_: ["false"])  # local is tried, and cannot run it
    watch = UnitWatch(settings, sqlite(threads=True), (Collectors(), Edges()))
    watch.beat(print)
    two["h1"].switch_off() if loses_power else two["h1"].cut_off()
    silent = time.monotonic()

    def arrived() -> bool:
        watch.beat(print)
        return deploy.agent(settings, "collector1").runs_on == "h2"

    until(arrived, poll=settings.placement.beat_seconds, what="it is on h2")
    print(f"{time.monotonic() - silent:.1f} s after h1 fell silent, collector1 was on h2")
    watch.stop()
    watch.mover.wait()
    if not loses_power:
        two["h1"].reconnect()
