"""A collector's process and channel on a host where it is not deployed, to be drained and stopped.

It moved away from there, or a move to there was broken off. The host may be silent, or Kafka away: then this
waits. Until it is done two processes may be the one collector. That is harmless: they share nothing, each
block is in the channel of the one that took it, and of lines that an edge sent to both one copy is dropped by
their identity. Remnants are recorded in ``<home>/flume/<name>/left/<host>.json``.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path

from sluice.collection import lifecycle
from sluice.collection.agent import Agent, folder
from sluice.collection.at_once import by_machine
from sluice.collection.deploy_plan import deployed
from sluice.collection.errors import AgentError
from sluice.collection.machine import ProcessState
from sluice.collection.metrics import MetricsUnreachable
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings
from sluice_hosts.agents.ssh_machine import SshMachine

Log = Callable[[str], None]

#: How long one try may take: nobody looks after the other agents meanwhile.
DRAIN_SECONDS = 10.0
#: A move that goes well needs less, so this is worth an alert.
LONG_SECONDS = 60.0


def known(settings: Settings) -> list[Agent]:
    """The collectors that were left on a host, as they were deployed there.

    One that has come back to the host is no remnant: it goes on with its channel.
    """
    at = {(agent.name, agent.runs_on) for agent in deployed(settings)}
    found = sorted((settings.home / "flume").glob("*/left/*.json"))
    agents = [Agent.from_json(path.read_text()) for path in found]
    return [agent for agent in agents if (agent.name, agent.runs_on) not in at]


def overdue(settings: Settings) -> list[Agent]:
    """Those that have waited for long."""
    since = time.time() - LONG_SECONDS
    return [each for each in known(settings) if _added(settings, each) < since]


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

    by_machine(known(settings), drain_each)


def drain_of(settings: Settings, collector: str, log: Log) -> None:
    """Drain and stop those of one collector; one that cannot be drained now is tried again later."""
    for each in known(settings):
        if each.name == collector:
            try:
                _drain(settings, each, log)
            except (MetricsUnreachable, AgentError) as error:
                log(f"{each.name}: what is in its channel stays on {each.runs_on} for now: {error}")


def _drain(settings: Settings, agent: Agent, log: Log) -> None:
    if not lifecycle.clean(settings, agent):
        machine = SshMachine(settings, agent.runs_on)
        if machine.status(agent).state != ProcessState.ALIVE:
            machine.resume(agent)
        if not machine.counters(agent).complete:
            return  # it starts
        lifecycle.stop_version(machine, agent, log, must_drain=True, drain_seconds=DRAIN_SECONDS)
    remove(settings, agent)
    log(f"{agent.name}: what it had on {agent.runs_on} is in Kafka")


def _added(settings: Settings, agent: Agent) -> float:
    """When it became one; never, if it was drained just now."""
    try:
        return _path(settings, agent).stat().st_mtime
    except FileNotFoundError:
        return math.inf


def _path(settings: Settings, agent: Agent) -> Path:
    return folder(settings, agent.name) / "left" / f"{agent.runs_on}.json"
