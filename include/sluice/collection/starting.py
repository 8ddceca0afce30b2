"""Start what is deployed and does not run. Callers hold the deployment's lock."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.collection import lifecycle
from sluice.collection.at_once import by_host
from sluice.collection.deploy_plan import deployed
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL
from sluice.collection.lifecycle import Log
from sluice.collection.render import Agent
from sluice.collection.ssh import HostUnreachable
from sluice.runtime.settings import Settings

#: The names of the agents that were started, and why others failed, by their names.
Outcome = tuple[list[str], dict[str, str]]


def start_all(settings: Settings, log: Log, *, check: bool = False) -> Outcome:
    """Start the collectors, then this machine's edges, then those of other hosts.

    With `check` agents that already run must be ready too, because an agent goes on without a component that
    it could not start. One that cannot start, or whose host is away, does not keep the others from starting.
    """
    agents = deployed(settings)
    here = [a for a in agents if a.runs_on == LOCAL]
    outcomes = [_start(settings, [a for a in here if a.tier == "collector"], log, check)]
    outcomes.append(_start(settings, [a for a in here if a.tier == "edge"], log, check))
    far = [a for a in agents if a.runs_on != LOCAL]
    outcomes += by_host(far, lambda those: _start(settings, those, log, check))
    started = [name for names, _ in outcomes for name in names]
    return started, {name: why for _, failed in outcomes for name, why in failed.items()}


def _start(settings: Settings, agents: Sequence[Agent], log: Log, check: bool) -> Outcome:
    started: list[str] = []
    failed: dict[str, str] = {}
    begun, running = [], []
    for each in agents:
        try:
            if lifecycle.settled(settings, each):
                running.append(each)
            else:
                lifecycle.start(settings, each, log)
                begun.append(each)
        except HostUnreachable as error:  # nothing is known of it, so nothing is done to it
            if check:
                log(f"{each.name} is unknown: {error}")
        except Exception as error:
            failed[each.name] = _why(each, error)
    for each in [*running, *begun] if check else begun:
        try:
            lifecycle.await_ready(settings, [each])
        except Exception as error:
            failed[each.name] = _why(each, error)
        else:
            if each in begun:
                started.append(each.name)
    return started, failed


def _why(agent: Agent, error: Exception) -> str:
    """Another host may answer anything; here only an AgentError is no defect."""
    if agent.runs_on == LOCAL and not isinstance(error, AgentError):
        raise error
    return str(error) or type(error).__name__
