"""One agent's life: start, drain, stop, rewind. None of it loses a line.

An edge is stopped in three steps: its input is held (a file that its interceptor looks for), its channel
drains, it gets SIGTERM. A memory channel that ended in any other way has lost what it held, so its files
are then read again from as many bytes back as the channel can hold. Callers hold the deployment's lock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from sluice.collection import addresses, metrics, position, remote
from sluice.collection.command import agent_command
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL
from sluice.collection.keeper import ProcessState
from sluice.collection.render import MEMORY_BYTES, Agent, folder
from sluice.runtime import detached
from sluice.runtime.settings import Settings

Log = Callable[[str], None]

READY_SECONDS = 120.0  # 3 s on a quiet machine, 25 s on one with ten times more to do than cores
DRAIN_SECONDS = 60.0
STOP_SECONDS = 20.0
_POLL = 0.3

#: Files in an agent's folder. `hold` stops its input; `clean` says that its memory held nothing when it
#: ended.
HOLD, CLEAN = "hold", "clean"
_REST = {
    "memory": "what is in it will be read again when the agent starts",
    "file": "what is in it stays on disk and goes on when the agent starts",
}


def record(settings: Settings, agent: Agent) -> detached.ProcessRecord | None:
    """The process record of an agent on this machine."""
    return detached.read(agent.process, settings.home / "run")


def alive(settings: Settings, agent: Agent) -> bool:
    """Whether the agent runs. Raises HostUnreachable if its host does not answer."""
    if agent.runs_on != LOCAL:
        return remote.status(settings, agent).state == ProcessState.ALIVE
    return detached.alive(record(settings, agent))


def settled(settings: Settings, agent: Agent) -> bool:
    """Whether the agent runs and nothing is to be done to it; input that was left held is released.

    An agent on another host must also have its deployed configuration, which could not be brought there while
    the host was away. An edge is told where the collectors are now. Raises HostUnreachable.
    """
    if agent.runs_on != LOCAL:
        return remote.settled(settings, agent)
    addresses.write(settings, agent)
    return alive(settings, agent)


def counters(settings: Settings, agent: Agent) -> metrics.AgentCounters:
    """The agent's counters. Raises MetricsUnreachable; HostUnreachable is one."""
    if agent.runs_on != LOCAL:
        return remote.counters(settings, agent)
    return metrics.read(agent.metrics_port, settings.host("flume"))


def command(settings: Settings, agent: Agent) -> list[str]:
    """The command line of an agent on this machine."""
    where = folder(settings, agent.name)
    return agent_command(
        agent, configuration=where, state=where, home=settings.home, address=settings.bind_host
    )


def start(settings: Settings, agent: Agent, log: Log) -> None:
    """Start the agent, or adopt it if it runs."""
    if agent.runs_on != LOCAL:
        remote.start(settings, agent, DRAIN_SECONDS, log)
        return
    where = folder(settings, agent.name)
    found = record(settings, agent)
    if found is not None and detached.alive(found):
        (where / HOLD).unlink(missing_ok=True)
        return
    _recover(settings, agent, log)
    for name in (HOLD, CLEAN):
        (where / name).unlink(missing_ok=True)
    addresses.write(settings, agent)
    out = settings.home / "logs" / f"{agent.process}.out"
    started = detached.start(
        agent.process, command(settings, agent), cwd=where, log=out, run=settings.home / "run"
    )
    log(f"{agent.name}: started, pid {started.pid}")


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
    if must_drain and agent.tier == "collector" and clean(settings, agent):
        return True
    if agent.runs_on != LOCAL:
        if must_drain:
            remote.start(settings, agent, drain_seconds, log)
            await_ready(settings, [agent])
        return remote.stop(settings, agent, drain_seconds, log, must_drain)
    where = folder(settings, agent.name)
    if must_drain:
        start(settings, agent, log)
        await_ready(settings, [agent])
    found = record(settings, agent)
    drained = False
    if found is not None and detached.alive(found):
        if drain or must_drain:
            (where / HOLD).touch()
            drained = metrics.drain(lambda: counters(settings, agent), drain_seconds)
        if must_drain and not drained:
            (where / HOLD).unlink(missing_ok=True)
            raise AgentError(_undrained(settings, agent, drain_seconds))
        if drain and not drained:
            log(f"{agent.name}: channel not empty after {drain_seconds:g} s; " + _REST[agent.channel])
        detached.stop(found, STOP_SECONDS, run=settings.home / "run")
        if drained:
            (where / CLEAN).touch()
        log(f"{agent.name}: stopped" + (", drained" if drained else ""))
    # Here and not only at the next start: by then the inventory may have given it another kind of channel.
    _recover(settings, agent, log)
    return drained


def _undrained(settings: Settings, agent: Agent, drain_seconds: float) -> str:
    if not alive(settings, agent):
        return (
            f"{agent.name} ended while its channel drained: see `sluice logs {agent.process}`; it is started "
            "again"
        )
    return (
        f"{agent.name} still holds blocks of lines after {drain_seconds:g} s and would lose them: see with "
        "`sluice status` why they do not move, then deploy again"
    )


def clean(settings: Settings, agent: Agent) -> bool:
    """Whether the agent does not run, and its channel is known to hold nothing. Raises HostUnreachable."""
    if agent.runs_on != LOCAL:
        now = remote.status(settings, agent)
        return now.state != ProcessState.ALIVE and now.clean
    where = folder(settings, agent.name)
    return not alive(settings, agent) and ((where / CLEAN).exists() or not (where / "channel").exists())


def rewind(settings: Settings, agent: Agent, sent: int, log: Log) -> dict[str, tuple[int, int]]:
    """Take a stopped edge back by `sent` bytes that were sent of each file; return {file: (old, new)}."""
    if alive(settings, agent):
        raise AgentError(f"{agent.name} runs: stop it before its positions are taken back")
    moved = position.rewind(folder(settings, agent.name) / "position.json", sent, agent.max_line)
    for file, (old, new) in moved.items():
        log(f"{agent.name}: {file} will be read again from byte {new:,} (was {old:,})")
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


def _recover(settings: Settings, agent: Agent, log: Log) -> None:
    """Have lines read again that a memory channel may have lost when its agent ended."""
    clean = folder(settings, agent.name) / CLEAN
    if agent.tier == "edge" and agent.channel == "memory" and clean.parent.is_dir() and not clean.exists():
        rewind(settings, agent, MEMORY_BYTES, log)
        clean.touch()
