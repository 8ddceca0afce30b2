"""The health of agents, by process and counters; what is wrong becomes an alert.

Rules, each with the alert's name behind ``<agent>:``
  unknown             its host does not answer: it may well run, so nothing is started
  stopped             it is deployed and does not run
  deployment          it runs, and what is to be done to it fails
  left on <host>      it moved away, and is not drained yet; blocks of lines may be in its channel there
  dead                the process is gone (its supervision restarts it)
  no metrics          it runs and does not answer
  not complete        it runs without its source, channel or sink
  channel             80 % full or more, by blocks or by bytes: what takes from it is slower than what puts
  channel broken      the file channel says so itself, or it failed to write since the last look (disk full?)
  sink <name>         sending failed since the last look
  sinks               what is in the channel has not moved for 20 s
  source              refused by the channel, or reading failed, since the last look
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import sqlalchemy

from sluice.collection import lifecycle, metrics
from sluice.collection.agent import Agent
from sluice.collection.at_once import by_machine, reason
from sluice.collection.errors import HostUnreachable
from sluice.collection.hosting import hosting, machine_of
from sluice.collection.machine import ProcessState
from sluice.collection.metrics import AgentCounters
from sluice.runtime.settings import Settings
from sluice.storage.tables import alerts

SOURCE = "collection"
FULL = 80.0
START_SECONDS = lifecycle.READY_SECONDS
# Kafka's producer gives a batch up only after 120 s and counts nothing before: a channel that does not move
# shows it earlier.
STALL_SECONDS = 20.0


class AgentState(StrEnum):
    """What is seen of an agent."""

    RUNNING = "running"  # its counters were read, or it has run long enough to show some
    STARTING = "starting"  # it is too young to show all counters
    DEAD = "dead"  # it ended, and nobody stopped it
    STOPPED = "stopped"  # it was stopped
    UNKNOWN = "unknown"  # its host does not answer


#: The counters of a sink that failed to send.
FAILURES = ("ConnectionFailedCount", "EventWriteFail", "ChannelReadFail", "RollbackCount")
_SOURCE_FAILURES = ("ChannelWriteFail", "EventReadFail", "GenericProcessingFail")


@dataclass(frozen=True)
class Health:
    """One look at one agent. ``alerts``: {name: message}; empty if all is well."""

    agent: str
    state: AgentState
    channel_fill: float | None = None  # per cent
    channel_size: int | None = None  # blocks
    alerts: dict[str, str] = field(default_factory=dict)
    counters: dict[str, dict[str, float]] = field(default_factory=dict)
    moved_at: float = 0.0  # when the channel was last seen empty or taken from (seconds since the epoch)

    def line(self) -> str:
        """For the log."""
        fill = "" if self.channel_fill is None else f", channel {self.channel_fill:.0f} %"
        wrong = "".join(f"; {message}" for message in self.alerts.values())
        return f"{self.agent}: {self.state}{fill}{wrong}"


def check_all(
    settings: Settings, agents: Iterable[Agent], previous: Mapping[str, Health], failed: Mapping[str, str]
) -> dict[str, Health]:
    """Look at agents, at all hosts at the same time.

    ``failed``: why what was done to them failed, by name.
    """

    def look(those: list[Agent]) -> list[Health]:
        return [check(settings, a, previous.get(a.name), failed.get(a.name, "")) for a in those]

    found = {each.agent: each for healths in by_machine(agents, look) for each in healths}
    for left in hosting().overdue(settings):
        if health := found.get(left.name):
            found[left.name] = replace(health, alerts={**health.alerts, **_left(left)})
    return found


def check(settings: Settings, agent: Agent, previous: Health | None = None, failed: str = "") -> Health:
    """Look at one agent.

    ``previous``: the last look, against which counters are compared. ``failed``: why it could not be started,
    or changed.
    """
    name, at = agent.name, ""
    try:
        machine = machine_of(settings, agent)
        at = "" if machine.ours else f" on {machine.name}"
        now = machine.status(agent)
        if now.state == ProcessState.ALIVE:
            found = _look(settings, agent, previous, now.age)
            if now.held:  # on purpose, and its source counts each refusal as a failure
                own = {which: what for which, what in found.alerts.items() if which != f"{name}: source"}
                found = replace(found, alerts=own)
            wrong = {f"{name}: deployment": f"{name}{at}: {failed}"} if failed else {}
            return replace(found, alerts={**found.alerts, **wrong})
    except Exception as error:
        message = f"{name} is unknown, it may well run: {reason(agent, error)}"
        return Health(name, AgentState.UNKNOWN, alerts={f"{name}: unknown": message})
    if now.state == ProcessState.DEAD:
        message = f"{name} is dead (pid {now.pid}{at}): {failed or f'see `sluice logs {agent.process}`'}"
        return Health(name, AgentState.DEAD, alerts={f"{name}: dead": message})
    # Seen once it says nothing: a deployment stops an agent for a moment, and `sluice down` for good.
    if not failed and (machine.ours or previous is None or previous.state != AgentState.STOPPED):
        return Health(name, AgentState.STOPPED)
    message = f"{name} does not run{at}: {failed or 'see the log of the task supervise'}"
    return Health(name, AgentState.STOPPED, alerts={f"{name}: stopped": message})


def _left(agent: Agent) -> dict[str, str]:
    at = agent.runs_on
    return {
        f"{agent.name}: left on {at}": f"{agent.name}: blocks of lines may still be on {at}; they are sent "
        f"when {at} answers and Kafka runs. If {at} is gone for good: sluice hosts forget {at}"
    }


def _look(settings: Settings, agent: Agent, previous: Health | None, age: float) -> Health:
    """Read the counters of an agent that has run for `age` seconds."""
    starting = age < START_SECONDS
    try:
        now = lifecycle.counters(settings, agent)
    except HostUnreachable:
        raise
    except metrics.MetricsUnreachable as error:
        if starting:
            return Health(agent.name, AgentState.STARTING)
        return Health(agent.name, AgentState.RUNNING, alerts={f"{agent.name}: no metrics": str(error)})
    if starting and not now.complete:
        return Health(agent.name, AgentState.STARTING)
    return judge(agent, now, previous, time.time())


def judge(agent: Agent, now: AgentCounters, previous: Health | None, at: float) -> Health:
    """The rules for one reading, taken at ``at``; pure."""
    before = AgentCounters(previous.counters) if previous else AgentCounters({})
    size = now.channel.get("ChannelSize", 0.0)
    moved = (
        not before.channel
        or size == 0
        or now.channel.get("EventTakeSuccessCount") != before.channel.get("EventTakeSuccessCount")
    )
    moved_at = at if moved or previous is None else previous.moved_at
    found = {
        **_components(agent, now),
        **_channel(now, before),
        **_sinks(now, before),
        **_source(now, before),
    }
    if at - moved_at >= STALL_SECONDS:
        found["sinks"] = f"{size:,.0f} blocks of lines have not moved for {at - moved_at:.0f} s"
    return Health(
        agent.name,
        AgentState.RUNNING,
        now.fill,
        int(size),
        {f"{agent.name}: {name}": f"{agent.name}: {message}" for name, message in found.items()},
        now.counters,
        moved_at,
    )


def report(engine: sqlalchemy.Engine, healths: Iterable[Health]) -> list[str]:
    """Raise and clear the alerts of these agents; return what changed, as lines for the log."""
    lines = []
    for health in healths:
        raised, cleared = alerts.sync(engine, SOURCE, health.alerts, prefix=f"{health.agent}: ")
        lines += [f"ALERT {health.alerts[name]}" for name in raised]
        lines += [f"over: {name}" for name in cleared]
    return lines


def _components(agent: Agent, now: AgentCounters) -> dict[str, str]:
    """Flume goes on without a source whose file it cannot read, and counts nothing of it."""
    missing = ", ".join(sorted(part.lower() for part in now.missing))
    if not missing:
        return {}
    return {"not complete": f"its {missing} does not run: see `sluice logs {agent.process}`"}


def _channel(now: AgentCounters, before: AgentCounters) -> dict[str, str]:
    found = {}
    if now.fill is not None and now.fill >= FULL:
        found["channel"] = f"channel {now.fill:.0f} % full"
    errors = _grown(now.channel, before.channel, ("CheckpointWriteErrorCount", "EventPutErrorCount"))
    if now.channel.get("Unhealthy", 0) > 0 or errors:
        found["channel broken"] = (
            f"the file channel cannot write ({errors or 'unhealthy'}): is the disk full?"
        )
    return found


def _sinks(now: AgentCounters, before: AgentCounters) -> dict[str, str]:
    found = {}
    for name, sink in now.sinks.items():
        if failures := _grown(sink, before.sinks.get(name, {}), FAILURES):
            found[f"sink {name}"] = f"sink {name} fails ({failures})"
    return found


def _source(now: AgentCounters, before: AgentCounters) -> dict[str, str]:
    found = {}
    for name, source in now.counters.items():
        if not name.startswith("SOURCE."):
            continue
        if failures := _grown(source, before.counters.get(name, {}), _SOURCE_FAILURES):
            found["source"] = f"source fails ({failures})"
    return found


def _grown(now: dict[str, float], before: dict[str, float], names: Iterable[str]) -> str:
    """Which counters grew since the last look, and by how much.

    After a restart they count from zero.
    """
    parts = []
    for name in names:
        value, last = now.get(name, 0.0), before.get(name, 0.0)
        grown = value - last if value >= last else value
        if grown > 0:
            parts.append(f"{name} +{grown:.0f}")
    return ", ".join(parts)
