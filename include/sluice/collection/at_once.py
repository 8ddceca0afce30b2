"""Work for agents, at all machines at the same time: one that is slow does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sluice.collection.agent import LOCAL, Agent
from sluice.collection.errors import AgentError

AT_ONCE = 16

T = TypeVar("T")


def by_machine(agents: Iterable[Agent], work: Callable[[list[Agent]], T]) -> list[T]:
    """Do the work for each machine's agents, in their order; returns what it returned, for each machine."""
    machines: dict[str, list[Agent]] = {}
    for agent in agents:
        machines.setdefault(agent.runs_on, []).append(agent)
    with ThreadPoolExecutor(min(AT_ONCE, max(len(machines), 1))) as pool:
        return list(pool.map(work, machines.values()))


def ours_first(agents: Iterable[Agent], work: Callable[[list[Agent]], T]) -> list[T]:
    """As `by_machine`, but this machine's agents come before all others."""
    agents = list(agents)
    ours = [agent for agent in agents if agent.runs_on == LOCAL]
    return by_machine(ours, work) + by_machine((a for a in agents if a.runs_on != LOCAL), work)


def reason(agent: Agent, error: Exception) -> str:
    """What to say of an error at an agent's machine, which need not stop what is done for other agents.

    Another machine may answer anything. On this one all but an AgentError is a defect, and is raised.
    """
    if not isinstance(error, AgentError) and agent.runs_on == LOCAL:
        raise error
    return str(error) or type(error).__name__
