"""An edge's input is held while a disk is nearly full, and goes on by itself; any process is an agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sluice.collection import lifecycle
from sluice.collection.agent import Agent, folder
from sluice.collection.hosting import machine_of
from sluice.runtime import detached
from sluice.runtime.holds import Hold, hold, release
from sluice.runtime.settings import Settings

EDGE = Agent("web1", "edge", "logs", "memory", 1_000, 29_400)
COLLECTOR = replace(EDGE, name="collector1", tier="collector", channel="file")


@pytest.fixture
def running(settings: Settings) -> Iterator[Settings]:
    run, argv = settings.home / "run", [sys.executable, "-c", "import time; time.sleep(60)"]
    records = []
    for agent in (EDGE, COLLECTOR):
        folder(settings, agent.name).mkdir(parents=True)
        records.append(detached.start(agent.process, argv, run=run, log=settings.home / "log"))
    yield settings
    for record in records:
        detached.stop(record, 0, run=run)


@pytest.mark.slow
def test_edges_are_held_and_collectors_hand_on_what_they_have(running: Settings) -> None:
    said: list[str] = []

    def held(agent: Agent) -> bool:
        assert lifecycle.settled(running, agent, said.append)
        return machine_of(running, agent).status(agent).held

    assert not held(EDGE)
    hold(running.home, Hold.INTAKE, "no space")
    assert [held(EDGE), held(EDGE), held(COLLECTOR)] == [True, True, False]
    release(running.home, Hold.INTAKE)
    assert not held(EDGE)
    assert said == ["web1: input is held: no space", "web1: input goes on"]
    hold(running.home, Hold.LAYERS, "no space")  # what came in is not counted, and edges are not concerned
    assert not held(EDGE)
