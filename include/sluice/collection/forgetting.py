"""Give up what is on a host that is gone for good."""

from __future__ import annotations

from sluice.collection import deploy, enrolment, inventory
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL
from sluice.collection.render import Agent
from sluice.collection.ssh import HostUnreachable
from sluice.runtime.settings import Settings


class StillNeeded(ValueError):
    """The host is in use, or answers."""


def forgettable(settings: Settings, name: str) -> list[Agent]:
    """The deployed agents of a host that may be given up.

    Raises StillNeeded if the inventory has front-ends on it, or if it answers: it can be drained then.
    """
    if name == LOCAL:
        raise StillNeeded("local is this machine")
    wanted = [f.host for f in inventory.load(settings).front_ends if f.runs_on == name]
    if wanted:
        raise StillNeeded(
            f"{', '.join(wanted)} of {inventory.path_of(settings)} runs on {name}: take it out first"
        )
    found = [agent for agent in deploy.agents(settings) if agent.runs_on == name]
    try:
        if found:
            enrolment.link(settings, enrolment.known(settings, name)).run("true")
    except (HostUnreachable, AgentError):
        return found
    if found:
        raise StillNeeded(f"{name} answers: the DAG `collection` drains and stops what runs there")
    return found
