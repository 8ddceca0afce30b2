"""What a collector left behind on a host that was silent when it moved away.

Blocks of lines may lie there in its channel, and it may still run there. It is drained and stopped when the
host answers. Until then two processes may be the one collector. That is harmless: they share nothing, each
block is in the channel of the one that took it, and of lines that an edge sent to both one copy is dropped by
their identity. Remnants are recorded in ``<home>/flume/<name>/left/<host>.json``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from sluice.collection import lifecycle, remote
from sluice.collection.at_once import by_host
from sluice.collection.deploy_plan import deployed
from sluice.collection.render import Agent, folder
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings

Log = Callable[[str], None]

#: How long one try may take: nobody looks after the other agents meanwhile.
DRAIN_SECONDS = 10.0


def known(settings: Settings) -> list[Agent]:
    """The collectors that were left on a host, as they were deployed there.

    One that has come back to the host is no remnant: it goes on with its channel.
    """
    at = {(agent.name, agent.runs_on) for agent in deployed(settings)}
    found = sorted((settings.home / "flume").glob("*/left/*.json"))
    agents = [Agent.from_json(path.read_text()) for path in found]
    return [agent for agent in agents if (agent.name, agent.runs_on) not in at]


def add(settings: Settings, agent: Agent) -> None:
    path = _path(settings, agent)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, agent.to_json())


def remove(settings: Settings, agent: Agent) -> None:
    _path(settings, agent).unlink(missing_ok=True)


def drain(settings: Settings, log: Log) -> None:
    """Drain and stop those whose host answers; one that cannot be drained now is tried again."""

    def drain_each(those: list[Agent]) -> None:
        for each in those:
            with contextlib.suppress(Exception):  # whatever a host answers, the others are drained
                _drain(settings, each, log)

    by_host(known(settings), drain_each)


def _drain(settings: Settings, agent: Agent, log: Log) -> None:
    if not lifecycle.clean(settings, agent):
        if remote.status(settings, agent).state != "alive":
            remote.resume(settings, agent)
        if not lifecycle.counters(settings, agent).complete:
            return  # it starts
        remote.stop(settings, agent, DRAIN_SECONDS, log, must_drain=True)
    remove(settings, agent)
    log(f"{agent.name}: what it had left on {agent.runs_on} is in Kafka")


def _path(settings: Settings, agent: Agent) -> Path:
    return folder(settings, agent.name) / "left" / f"{agent.runs_on}.json"
