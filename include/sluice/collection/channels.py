"""Whether agents have handed on what their channels held at a time. A channel is a queue."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from sluice.collection import lifecycle
from sluice.collection.agent import Agent
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.runtime.settings import Settings

TAKEN, PUT, SIZE = "EventTakeSuccessCount", "EventPutSuccessCount", "ChannelSize"


class AgentRestarted(RuntimeError):
    """An agent's counters began again, so nobody knows what became of what its channel held."""


@dataclass(frozen=True)
class ChannelMark:
    """What an agent's channel held at a time, in blocks, and how many it had handed on by then."""

    agent: Agent
    taken: float
    held: float


def marks(settings: Settings, agents: Iterable[Agent]) -> list[ChannelMark]:
    """A mark for each of these agents that answers."""
    found = []
    for agent in agents:
        with suppress(MetricsUnreachable):
            found.append(_mark(agent, lifecycle.counters(settings, agent)))
    return found


def still_held(settings: Settings, marked: Iterable[ChannelMark]) -> list[ChannelMark]:
    """The marks of agents that may still hold something of then; one that does not answer is left out.

    Raises AgentRestarted.
    """
    found = []
    for mark in marked:
        with suppress(MetricsUnreachable):
            counters = lifecycle.counters(settings, mark.agent)
            now = _mark(mark.agent, counters)
            if now.taken < mark.taken:
                raise AgentRestarted(f"{mark.agent.name} was started again")
            if not counters.drained and now.taken < mark.taken + mark.held:
                found.append(mark)
    return found


def _mark(agent: Agent, counters: AgentCounters) -> ChannelMark:
    """A memory channel's size leaves out what its sink has in hand, and a file channel's counters what an
    earlier process left in it: the larger number is what is held."""
    channel = counters.channel
    taken = channel.get(TAKEN, 0)
    return ChannelMark(agent, taken, max(channel.get(SIZE, 0), channel.get(PUT, 0) - taken))
