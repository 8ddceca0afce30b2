"""Deploy the agents that the inventory asks for.

One lock for each instance keeps a deployment and the supervision from changing the same agent.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence

from filelock import FileLock, Timeout

from sluice.collection import lifecycle, metrics, position, remote
from sluice.collection.deploy_plan import Change, deployed
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL
from sluice.collection.lifecycle import DRAIN_SECONDS, HOLD, Log
from sluice.collection.render import MEMORY_BYTES, Agent, folder
from sluice.collection.ssh import HostUnreachable
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings, make_secret

_POLL = 0.3


class DeployError(RuntimeError):
    """The agents could not be brought to what was asked."""


class DeployBusy(DeployError):
    """Another deployment, or the supervision, holds this instance."""


def agents(settings: Settings) -> list[Agent]:
    """The deployed agents, collectors first."""
    return deployed(settings)


def agent(settings: Settings, name: str) -> Agent:
    """The deployed agent of that name."""
    for each in deployed(settings):
        if each.name == name:
            return each
    known = ", ".join(a.name for a in deployed(settings)) or "none"
    raise DeployError(f"no agent {name!r} is deployed; deployed are: {known}")


def apply(settings: Settings, changes: Sequence[Change], log: Log = print) -> list[Change]:
    """Deploy what changed, and return just these changes.

    An unchanged agent is neither stopped nor written. The order loses nothing and never has two agents on one
    port: edges that change or go are drained and stopped while the old collectors still take their lines;
    collectors that go are drained; collectors that change are stopped (their channel is on disk); then
    everything starts, collectors first. What a host that does not answer should run is brought there by
    `ensure` when it answers.
    """
    todo = [change for change in changes if change.action != "unchanged"]
    _check_directories(settings, todo)
    _make_topics(settings, todo, log)
    with _locked(settings, wait=True):
        try:
            _stop_changed(settings, todo, log)
        except AgentError:
            _start_all(settings, log)  # as they were
            raise
        for change in todo:
            _write(settings, change)
            log(f"{change.agent}: {change.action}d")
        _, failed = _start_all(settings, log, check=True)
    if failed:
        raise DeployError("; ".join(map(str, failed)))
    return todo


def ensure(settings: Settings, log: Log = print) -> list[str]:
    """Start every deployed agent that does not run; return the names of those that then work.

    An agent that cannot start is named to ``log`` and tried again at the next call. This does nothing while a
    deployment is at work, because that has stopped agents on purpose.
    """
    try:
        with _locked(settings, wait=False):
            for each in deployed(settings):
                held = folder(settings, each.name) / HOLD
                if each.runs_on == LOCAL and held.exists() and lifecycle.alive(settings, each):
                    log(f"{each.name}: input was still held by a deployment that died; released")
                    held.unlink(missing_ok=True)
            started, failed = _start_all(settings, log)
    except DeployBusy:
        return []
    for error in failed:
        log(str(error))
    return started


def start(settings: Settings, agent: Agent, log: Log = print) -> None:
    """Start one agent and wait until it answers; adopt it if it runs already."""
    with _locked(settings, wait=True):
        lifecycle.start(settings, agent, log)
        lifecycle.await_ready(settings, [agent])


def stop(settings: Settings, agent: Agent, drain_seconds: float = DRAIN_SECONDS, log: Log = print) -> bool:
    """Stop one agent, an edge drained; return whether its channel was seen empty.

    Nothing is lost either way.
    """
    with _locked(settings, wait=True):
        return lifecycle.stop(settings, agent, log, drain=agent.tier == "edge", drain_seconds=drain_seconds)


def stop_all(settings: Settings, drain_seconds: float = DRAIN_SECONDS, log: Log = print) -> None:
    """Stop every agent: edges, drained, then collectors."""
    with _locked(settings, wait=True):
        for each in reversed(deployed(settings)):
            try:
                lifecycle.stop(settings, each, log, drain=each.tier == "edge", drain_seconds=drain_seconds)
            except (HostUnreachable, AgentError) as error:
                if each.runs_on == LOCAL:
                    raise
                log(f"{each.name} is not known to be stopped: {error}")


def rewind(
    settings: Settings, agent: Agent, sent: int = MEMORY_BYTES, log: Log = print
) -> dict[str, tuple[int, int]]:
    """Have a stopped edge send its last lines again: so many bytes of each file.

    By default they are as many as a memory channel holds.
    """
    with _locked(settings, wait=True):
        return lifecycle.rewind(settings, agent, sent, log)


def drained(settings: Settings) -> bool:
    """Whether every file has been read to its end and every channel is empty: all is in Kafka.

    TAILDIR writes its position once a second, so this lags by that much. A last line without newline is
    not waited for.
    """
    # Edges first: what leaves them between two readings is then seen in a collector.
    for each in reversed(deployed(settings)):
        try:
            if not _all_read(settings, each) or not lifecycle.counters(settings, each).drained:
                return False
        except metrics.MetricsUnreachable:
            return False
    return True


def wait_drained(settings: Settings, timeout: float = 120.0) -> None:
    """Wait for `drained`, seen twice; raises DeployError when the time is over."""
    deadline, seen = time.monotonic() + timeout, 0
    while seen < 2:  # noqa: PLR2004 - between the readings of two agents lines may have moved
        if time.monotonic() > deadline:
            raise DeployError(f"lines were still on their way after {timeout:g} s: see `sluice status`")
        seen = seen + 1 if drained(settings) else 0
        time.sleep(_POLL)


def _stop_changed(settings: Settings, changes: Sequence[Change], log: Log) -> None:
    there = {a.name: a for a in deployed(settings)}
    for tier in ("edge", "collector"):
        for change in changes:
            old = there.get(change.agent)
            if change.tier != tier or old is None:
                continue
            drop = change.rendered is None or change.rendered.agent.channel != old.channel
            if old.runs_on != LOCAL and not drop:
                continue  # it goes on until its new version lies beside the old one
            try:
                lifecycle.stop(settings, old, log, drain=tier == "edge", must_drain=drop)
            except HostUnreachable as error:
                raise AgentError(f"{old.name} cannot be drained ({error}): deploy again later") from error


def _check_directories(settings: Settings, changes: Sequence[Change]) -> None:
    """Check the log directories outside the instance, before anything is touched.

    Raises DeployError if one is missing or cannot be read.
    """
    for change in changes:
        agent = change.rendered.agent if change.rendered and not change.remote else None
        for pattern in agent.patterns(settings.home) if agent else ():
            where = pattern.directory
            if where.is_relative_to(settings.home):
                continue
            if not where.is_dir():
                raise DeployError(f"{change.agent}: {where} is no directory: make it, or correct `files`")
            if not os.access(where, os.R_OK | os.X_OK):
                raise DeployError(f"{change.agent}: {where} cannot be read: give this user r and x on it")


def _make_topics(settings: Settings, changes: Sequence[Change], log: Log) -> None:
    """Create the collectors' topic.

    A failure is only logged, because without Kafka the lines wait in the collectors' channels.
    """
    from kafka.errors import KafkaError

    from sluice.transmission.topics import Topics

    collectors = [c.rendered.agent for c in changes if c.rendered and c.tier == "collector"]
    for topic in sorted({agent.topic for agent in collectors}):
        try:
            with Topics(settings) as topics:
                topics.create(topic)
        except KafkaError as error:
            log(
                f"topic {topic!r} is not known to exist ({error}): lines wait in the collectors until it does"
            )


def _write(settings: Settings, change: Change) -> None:
    """Put the agent's files in place, or remove its configuration if it goes.

    The position and the channel of an agent that goes stay, in case it comes back.
    """
    where = folder(settings, change.agent)
    if change.rendered is None:
        for name in ("agent.json", "agent.properties"):
            (where / name).unlink(missing_ok=True)
        return
    where.mkdir(parents=True, exist_ok=True)
    make_secret(settings.home, "identity")
    for pattern in [] if change.remote else change.rendered.agent.patterns(settings.home):
        pattern.directory.mkdir(parents=True, exist_ok=True)
    for name, text in change.rendered.files.items():
        write_whole(where / name, text)


def _start_all(settings: Settings, log: Log, *, check: bool = False) -> tuple[list[str], list[AgentError]]:
    """Start what is deployed and does not run, one tier at a time.

    Returns the names of the agents that were started, and the errors of those that failed. With `check`
    agents that already run must be ready too, because an agent goes on without a component that it could not
    start.
    """
    started, failed = [], []
    for tier in ("collector", "edge"):
        those = [a for a in deployed(settings) if a.tier == tier]
        begun, running = [], []
        # One that cannot start, or whose host is away, must not keep the others from starting.
        for each in those:
            try:
                if lifecycle.settled(settings, each):
                    running.append(each)
                else:
                    lifecycle.start(settings, each, log)
                    begun.append(each)
            except HostUnreachable as error:  # nothing is known of it, so nothing is done to it
                if check:
                    log(f"{each.name} is unknown: {error}")
            except AgentError as error:
                failed.append(error)
        for each in [*running, *begun] if check else begun:
            try:
                lifecycle.await_ready(settings, [each])
            except (AgentError, HostUnreachable) as error:
                failed.append(AgentError(str(error)))
            else:
                if each in begun:
                    started.append(each.name)
    return started, failed


def _all_read(settings: Settings, agent: Agent) -> bool:
    if agent.runs_on != LOCAL:
        return remote.all_read(settings, agent)
    files = [path for pattern in agent.patterns(settings.home) for path in pattern.files()]
    positions = position.read(folder(settings, agent.name) / "position.json") or []
    at_end = {p.file for p in positions if p.reached_end}
    return all(str(path) in at_end or path.stat().st_size == 0 for path in files)


@contextlib.contextmanager
def _locked(settings: Settings, wait: bool) -> Iterator[None]:
    path = settings.home / "flume" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path).acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise DeployBusy(f"another deployment holds {path}: wait for it") from error
    with held:
        yield
