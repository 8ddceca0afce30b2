"""One agent's life, on whichever machine: start, drain, stop, send again. None of it loses a line.

An edge is stopped in three steps: its input is held (a file that its interceptor looks for), its channel
drains, it gets SIGTERM. A memory channel that ended in any other way has lost what it held, so its files
are then read again from as many bytes back as the channel can hold. Callers hold the deployment's lock.

Every function raises HostUnreachable if another machine does not answer. Then nothing is known of the agent,
and nothing is done to it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping

from sluice.collection import metrics
from sluice.collection.agent import Agent
from sluice.collection.errors import AgentError
from sluice.collection.hosting import hosting, machine_of
from sluice.collection.machine import Machine, ProcessState, Texts
from sluice.collection.render import MEMORY_BYTES
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings

Log = Callable[[str], None]

READY_SECONDS = 120.0  # 3 s on a quiet machine, 25 s on one with ten times more to do than cores
DRAIN_SECONDS = 60.0
STOP_SECONDS = 20.0
_POLL = 0.3

_REST = {
    "memory": "what is in it will be read again when the agent starts",
    "file": "what is in it stays on disk and goes on when the agent starts",
}


def alive(settings: Settings, agent: Agent) -> bool:
    """Whether the agent runs."""
    return machine_of(settings, agent).status(agent).state == ProcessState.ALIVE


def settled(settings: Settings, agent: Agent, log: Log = lambda _: None) -> bool:
    """Whether the agent runs with its deployed configuration, and nothing is to be done to it.

    An edge's input is held while a disk is nearly full; input that was left held else is released. An edge is
    told where the collectors are now.
    """
    machine = machine_of(settings, agent)
    now = machine.status(agent)
    if now.state != ProcessState.ALIVE or now.version != machine.version(agent):
        return False
    full = holds.reason(settings.home, Hold.INTAKE) if agent.tier == "edge" else ""
    if now.held != bool(full):
        machine.hold(agent, held=bool(full))
        log(f"{agent.name}: input " + (f"is held: {full}" if full else "goes on"))
    _tell(settings, machine, agent, now.collectors)
    return True


def counters(settings: Settings, agent: Agent) -> metrics.AgentCounters:
    """The agent's counters. Raises MetricsUnreachable; HostUnreachable is one."""
    try:
        machine = machine_of(settings, agent)
    except AgentError as error:  # a list of hosts that cannot be used
        raise metrics.MetricsUnreachable(str(error)) from error
    return machine.counters(agent)


def start(
    settings: Settings,
    agent: Agent,
    log: Log,
    *,
    texts: Texts | None = None,
    drain_seconds: float = DRAIN_SECONDS,
) -> None:
    """Have the agent run with its deployed configuration; adopt it if it does.

    texts: of another configuration, by the files' names. drain_seconds: how long an older version that runs
    may take to drain.
    """
    machine = machine_of(settings, agent)
    now = machine.status(agent)
    if now.state == ProcessState.ALIVE and now.version == machine.version(agent, texts):
        if now.held:
            machine.hold(agent, held=False)
        return
    if brought := machine.bring(agent, texts):
        log(f"{agent.name}: {brought}")
    if now.state == ProcessState.ALIVE:
        stop(settings, agent, log, drain_seconds=drain_seconds)
    _recover(machine, agent, log)
    _tell(settings, machine, agent, now.collectors)
    log(f"{agent.name}: started, {machine.start(agent, texts)}")


def stop(
    settings: Settings,
    agent: Agent,
    log: Log,
    *,
    drain: bool = True,
    must_drain: bool = False,
    drain_seconds: float = DRAIN_SECONDS,
) -> bool:
    """Stop the agent; return whether its channel was seen empty.

    drain: hold the input and wait until the channel is empty, but not for ever. must_drain: the agent will
    not start again with this channel, so a dead agent is started first; a collector that is known to have
    ended with nothing in its channel is not. If the channel does not drain, the agent keeps running and
    AgentError is raised.
    """
    machine = machine_of(settings, agent)
    if must_drain:
        if agent.tier == "collector" and clean(settings, agent):
            return True
        start(settings, agent, log, drain_seconds=drain_seconds)
        await_ready(settings, [agent])
    return stop_version(machine, agent, log, drain=drain, must_drain=must_drain, drain_seconds=drain_seconds)


def stop_version(
    machine: Machine,
    agent: Agent,
    log: Log,
    *,
    drain: bool = True,
    must_drain: bool = False,
    drain_seconds: float = DRAIN_SECONDS,
) -> bool:
    """Stop whichever version of the agent runs, as `stop` does; it is not started first."""
    now, drained = machine.status(agent), False
    if now.state == ProcessState.ALIVE:
        if drain or must_drain:
            machine.hold(agent, held=True)
            drained = metrics.drain(lambda: machine.counters(agent), drain_seconds)
        if must_drain and not drained:
            machine.hold(agent, held=False)
            raise AgentError(_undrained(machine, agent, drain_seconds))
        if drain and not drained:
            log(f"{agent.name}: channel not empty after {drain_seconds:g} s; " + _REST[agent.channel])
    if now.state != ProcessState.STOPPED:
        machine.stop(agent, STOP_SECONDS, drained)
        log(f"{agent.name}: stopped" + (", drained" if drained else ""))
    # Here and not only at the next start: by then the inventory may have given it another kind of channel.
    _recover(machine, agent, log)
    return drained


def clean(settings: Settings, agent: Agent) -> bool:
    """Whether the agent does not run, and its channel is known to hold nothing."""
    now = machine_of(settings, agent).status(agent)
    return now.state != ProcessState.ALIVE and now.clean


def send_again(
    settings: Settings, agent: Agent, to: Mapping[str, int], log: Log, drain_seconds: float = DRAIN_SECONDS
) -> Mapping[str, tuple[int, int]]:
    """Have an edge read files again: {name in the records: where a line begins}; it is drained before.

    Returns {file: (old, new)} of the positions that went back. Whatever fails, the edge is started.
    """
    stop(settings, agent, log, drain_seconds=drain_seconds)
    try:
        moved = machine_of(settings, agent).rewind(agent, to)
        _say_moved(agent, moved, log)
    finally:
        start(settings, agent, log)
    await_ready(settings, [agent])
    return moved


def await_ready(settings: Settings, starting: Iterable[Agent]) -> None:
    """Wait until each agent says that all its components run.

    Raises AgentError, which says where to look.
    """
    deadline = time.monotonic() + READY_SECONDS
    for each in starting:
        while True:
            with contextlib.suppress(metrics.MetricsUnreachable):
                if counters(settings, each).complete:
                    break
            if not alive(settings, each):
                raise AgentError(f"{each.name} died while it started: see `sluice logs {each.process}`")
            if time.monotonic() > deadline:
                raise AgentError(
                    f"{each.name} was not ready within {READY_SECONDS:g} s: see `sluice logs {each.process}`"
                )
            time.sleep(_POLL)


def _undrained(machine: Machine, agent: Agent, drain_seconds: float) -> str:
    who = agent.name if machine.ours else f"{agent.name} on {machine.name}"
    if machine.status(agent).state != ProcessState.ALIVE:
        return (
            f"{who} ended while its channel drained: see `sluice logs {agent.process}`; it is started again"
        )
    return (
        f"{who} still holds blocks of lines after {drain_seconds:g} s and would lose them: see with "
        "`sluice status` why they do not move, then deploy again"
    )


def _tell(settings: Settings, machine: Machine, agent: Agent, told: str) -> None:
    """Bring the edge's file of addresses up to date. told: what the file says."""
    text = hosting().addresses(settings, agent)
    if text is not None and text != told:
        machine.tell(agent, text)


def _say_moved(agent: Agent, moved: Mapping[str, tuple[int, int]], log: Log) -> None:
    for file, (old, new) in moved.items():
        log(f"{agent.name}: {file} will be read again from byte {new:,} (was {old:,})")


def _recover(machine: Machine, agent: Agent, log: Log) -> None:
    """Have lines sent again that the agent's channel may have lost when it ended."""
    if done := machine.mend(agent):
        log(f"{agent.name}: {done}")
    _say_moved(agent, machine.recover(agent, MEMORY_BYTES), log)
