"""One agent's life: start, drain, stop, rewind. None of it loses a line.

An edge is stopped in three steps: its input is held (a file that its interceptor looks for), its channel
drains, it gets SIGTERM. A memory channel that ended in any other way has lost what it held, so its files
are then read again from as many bytes back as the channel can hold. Callers hold the deployment's lock.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from sluice.collection import metrics, position
from sluice.collection.render import MEMORY_BYTES, Agent, folder
from sluice.runtime import detached
from sluice.runtime.jvm import LIB, java_command
from sluice.runtime.settings import Settings

Log = Callable[[str], None]

HEAP = "512m"
READY_SECONDS = 120.0  # 3 s on a quiet machine, 25 s on one with ten times more to do than cores
DRAIN_SECONDS = 60.0
STOP_SECONDS = 20.0
_POLL = 0.3
# A batch that passed the interceptor before the input was held may still be on its way into the channel:
# this many readings in a row must show it empty, and the same number of blocks taken in.
_STILL = 3

#: Files in an agent's folder. `hold` stops its input; `clean` says that its memory held nothing when it
#: ended.
HOLD, CLEAN = "hold", "clean"
_REST = {
    "memory": "what is in it will be read again when the agent starts",
    "file": "what is in it stays on disk and goes on when the agent starts",
}


class AgentError(RuntimeError):
    """An agent could not be started, stopped or rewound."""


def record(settings: Settings, agent: Agent) -> detached.Record | None:
    return detached.read(agent.process, settings.home / "run")


def alive(settings: Settings, agent: Agent) -> bool:
    return detached.alive(record(settings, agent))


def command(settings: Settings, agent: Agent) -> list[str]:
    """The command line of an agent on this machine."""
    where = folder(settings, agent.name)
    return agent_command(agent, where, where, settings.home, settings.bind_host)


def agent_command(
    agent: Agent,
    configuration: PurePosixPath,
    state: PurePosixPath,
    home: PurePosixPath,
    address: str,
    lib: PurePosixPath | None = None,
) -> list[str]:
    """The command line of an agent; ``lib``: where the jars lie, by default this machine's."""
    return java_command(
        "flume",
        "org.apache.flume.node.Application",
        ["--name", "agent", "--conf-file", str(configuration / "agent.properties"), "--no-reload-conf"],
        heap=HEAP,
        options=[
            "-Dflume.monitoring.type=sluice.flume.LocalMetrics",
            f"-Dflume.monitoring.host={address}",
            f"-Dflume.monitoring.port={agent.metrics_port}",
            f"-Dsluice.maxLine={agent.max_line}",
            f"-Dsluice.folder={state}",
            f"-Dsluice.home={home}",
            f"-Dlog4j2.configurationFile={configuration / 'log4j2.properties'}",
        ],
        classpath=[(lib or LIB / "flume") / "classes"],
        lib=lib,
    )


def start(settings: Settings, agent: Agent, log: Log) -> detached.Record:
    """Start the agent, or adopt it if it runs."""
    where = folder(settings, agent.name)
    found = record(settings, agent)
    if found is not None and detached.alive(found):
        (where / HOLD).unlink(missing_ok=True)
        return found
    _recover(settings, agent, log)
    for name in (HOLD, CLEAN):
        (where / name).unlink(missing_ok=True)
    out = settings.home / "logs" / f"{agent.process}.out"
    started = detached.start(
        agent.process, command(settings, agent), cwd=where, log=out, run=settings.home / "run"
    )
    log(f"{agent.name}: started, pid {started.pid}")
    return started


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
    not start again with this channel, so a dead agent is started first. If its channel does not drain, the
    agent keeps running and AgentError is raised.
    """
    where = folder(settings, agent.name)
    if must_drain:
        start(settings, agent, log)
        await_ready(settings, [agent])
    found = record(settings, agent)
    drained = False
    if found is not None and detached.alive(found):
        if drain or must_drain:
            (where / HOLD).touch()
            drained = _drain(settings, agent, drain_seconds)
        if must_drain and not drained:
            (where / HOLD).unlink(missing_ok=True)
            raise AgentError(
                f"{agent.name} still holds blocks of lines after {drain_seconds:g} s and would lose them: "
                "see with `sluice status` why they do not move, then deploy again"
            )
        if drain and not drained:
            log(f"{agent.name}: channel not empty after {drain_seconds:g} s; " + _REST[agent.channel])
        detached.stop(found, STOP_SECONDS, run=settings.home / "run")
        if drained:
            (where / CLEAN).touch()
        log(f"{agent.name}: stopped" + (", drained" if drained else ""))
    # Here and not only at the next start: by then the inventory may have given it another kind of channel.
    _recover(settings, agent, log)
    return drained


def rewind(settings: Settings, agent: Agent, sent: int, log: Log) -> dict[str, tuple[int, int]]:
    """Take a stopped edge's positions back by so many sent bytes a file; return {file: (old, new)}."""
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
        log_file = settings.home / "logs" / f"{each.process}.log"
        while True:
            with contextlib.suppress(metrics.MetricsUnreachable):
                if metrics.read(each.metrics_port, settings.bind_host).complete:
                    break
            if not alive(settings, each):
                raise AgentError(f"{each.name} died while it started: see {log_file}")
            if time.monotonic() > deadline:
                raise AgentError(f"{each.name} was not ready within {READY_SECONDS:g} s: see {log_file}")
            time.sleep(_POLL)


def _recover(settings: Settings, agent: Agent, log: Log) -> None:
    """Have lines read again that a memory channel may have lost when its agent ended."""
    clean = folder(settings, agent.name) / CLEAN
    if agent.tier == "edge" and agent.channel == "memory" and clean.parent.is_dir() and not clean.exists():
        rewind(settings, agent, MEMORY_BYTES, log)
        clean.touch()


def _drain(settings: Settings, agent: Agent, seconds: float) -> bool:
    """Wait until the channel is empty and has taken nothing more for a while."""
    deadline = time.monotonic() + seconds
    still, before = 0, -1.0
    while time.monotonic() < deadline:
        try:
            now = metrics.read(agent.metrics_port, settings.bind_host)
        except metrics.MetricsUnreachable:
            return False
        put = now.channel.get("EventPutSuccessCount", -1.0)
        still = still + 1 if now.drained and put == before else 0
        before = put
        if still >= _STILL:
            return True
        time.sleep(_POLL)
    return False
