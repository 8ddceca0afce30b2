"""Start what is deployed and does not run. Callers hold the deployment's lock."""

from __future__ import annotations

from collections.abc import Sequence

from sluice.collection import lifecycle
from sluice.collection.agent import Agent
from sluice.collection.at_once import ours_first, reason
from sluice.collection.deploy_plan import deployed
from sluice.collection.errors import HostUnreachable
from sluice.collection.lifecycle import Log
from sluice.runtime.settings import Settings

#: The names of the agents that were started, and why others failed, by their names.
Outcome = tuple[list[str], dict[str, str]]


def start_all(settings: Settings, log: Log, *, check: bool = False) -> Outcome:
    """Start this machine's agents, then those of other machines; on each the collectors first.

    With `check` agents that already run must be ready too, because an agent goes on without a component that
    it could not start. One that cannot start, or whose host is away, does not keep the others from starting.
    """

    def start(those: Sequence[Agent]) -> list[Outcome]:
        tiers = ([a for a in those if a.tier == tier] for tier in ("collector", "edge"))
        return [_start(settings, agents, log, check) for agents in tiers]

    outcomes = [each for machine in ours_first(deployed(settings), start) for each in machine]
    started = [name for names, _ in outcomes for name in names]
    return started, {name: why for _, failed in outcomes for name, why in failed.items()}


def _start(settings: Settings, agents: Sequence[Agent], log: Log, check: bool) -> Outcome:
    started: list[str] = []
    failed: dict[str, str] = {}
    begun, running = [], []
    for each in agents:
        try:
            if lifecycle.settled(settings, each, log):
                running.append(each)
            else:
                lifecycle.start(settings, each, log)
                begun.append(each)
        except HostUnreachable as error:  # nothing is known of it, so nothing is done to it
            if check:
                log(f"{each.name} is unknown: {error}")
        except Exception as error:
            failed[each.name] = reason(each, error)
    for each in [*running, *begun] if check else begun:
        try:
            lifecycle.await_ready(settings, [each])
        except Exception as error:
            failed[each.name] = reason(each, error)
        else:
            if each in begun:
                started.append(each.name)
    return started, failed
