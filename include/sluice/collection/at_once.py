"""Work for agents, at all hosts at the same time: one that is slow does not hold up the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sluice.collection.render import Agent

AT_ONCE = 16

T = TypeVar("T")


def by_host(agents: Iterable[Agent], work: Callable[[list[Agent]], T]) -> list[T]:
    """Do the work for each host's agents, in their order; returns what it returned, for each host."""
    hosts: dict[str, list[Agent]] = {}
    for agent in agents:
        hosts.setdefault(agent.runs_on, []).append(agent)
    with ThreadPoolExecutor(min(AT_ONCE, max(len(hosts), 1))) as pool:
        return list(pool.map(work, hosts.values()))
