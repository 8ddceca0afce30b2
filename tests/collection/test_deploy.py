"""Edges send again one after the other, and the deployment's lock is free in between."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sluice.collection import deploy, lifecycle
from sluice.collection.agent import Agent
from sluice.collection.errors import AgentError
from sluice.collection.records import DeployBusy, locked
from sluice.runtime.settings import Settings


def test_the_lock_is_free_between_two_edges_of_a_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(instance="test", home=tmp_path, port_base=29_000)
    edges = [Agent(name, "edge", "logs", "memory", 1_000, 1) for name in ("web1", "web2", "web3", "web4")]
    sent, waits = list[str](), list[float]()

    def send(settings: Settings, agent: Agent, to: Mapping[str, int], log: object) -> None:
        with pytest.raises(DeployBusy), locked(settings, wait=False):
            pass
        sent.append(f"{agent.name} {dict(to)}")
        if agent.name == "web1":
            raise AgentError("its disk is full")

    def free(seconds: float) -> None:
        waits.append(seconds)
        with locked(settings, wait=False):
            edges.pop()  # somebody takes web4 out of the inventory, and then web3

    monkeypatch.setattr(deploy, "deployed", lambda settings: list(edges))
    monkeypatch.setattr(lifecycle, "send_again", send)
    monkeypatch.setattr(deploy.time, "sleep", free)
    to = {name: {"a.log": 9} for name in ("web1", "web2", "web3", "nobody")}
    assert deploy.send_again(settings, to, lambda said: None) == {"web1": "its disk is full"}
    assert sent == ["web1 {'a.log': 9}", "web2 {'a.log': 9}"]
    assert waits == [deploy.FREE_SECONDS] * 2
