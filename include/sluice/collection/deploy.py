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
from sluice.collection.at_once import by_host
from sluice.collection.deploy_plan import Change, deployed
from sluice.collection.errors import AgentError
from sluice.collection.hosts import LOCAL
from sluice.collection.lifecycle import DRAIN_SECONDS, HOLD, Log
from sluice.collection.render import MEMORY_BYTES, Agent, folder
from sluice.collection.starting import start_all
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

    An agent on another host that goes and cannot be drained is left out, and the others are deployed. Then,
    and if an agent does not start, DeployError is raised at the end.
    """
    todo = [change for change in changes if change.action != "unchanged"]
    _check_directories(settings, todo)
    _make_topics(settings, todo, log)
    with _locked(settings, wait=True):
        left = _stop_removed(settings, todo, log)
        if left:
            left |= _tied(todo, left)
            todo = [change for change in todo if change.agent not in left]
        try:
            _stop_changed(settings, todo, log)
        except AgentError:
            start_all(settings, log)  # as they were
            raise
        for change in todo:
            _write(settings, change)
            log(f"{change.agent}: {change.action}d")
        _, failed = start_all(settings, log, check=True)
    if left or failed:
        raise DeployError("; ".join([*left.values(), *failed.values()]))
    return todo


def ensure(settings: Settings, log: Log = print, failed: dict[str, str] | None = None) -> list[str]:
    """Start every deployed agent that does not run; return the names of those that then work.

    An agent that cannot start is named to ``log``, and in ``failed`` with the reason, and tried again at the
    next call. This does nothing while a deployment is at work, because that has stopped agents on purpose.
    """
    try:
        with _locked(settings, wait=False):
            for each in deployed(settings):
                held = folder(settings, each.name) / HOLD
                if each.runs_on == LOCAL and held.exists() and lifecycle.alive(settings, each):
                    log(f"{each.name}: input was still held by a deployment that died; released")
                    held.unlink(missing_ok=True)
            started, wrong = start_all(settings, log)
    except DeployBusy:
        return []
    for why in wrong.values():
        log(why)
    if failed is not None:
        failed |= wrong
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
    """Stop every agent: edges, drained, those of other hosts first; then collectors."""
    with _locked(settings, wait=True):
        agents = list(reversed(deployed(settings)))
        _stop_far(settings, agents, drain_seconds, log)
        for each in agents:
            if each.runs_on == LOCAL:
                lifecycle.stop(settings, each, log, drain=each.tier == "edge", drain_seconds=drain_seconds)


def stop_far(settings: Settings, log: Log = print) -> None:
    """Stop the agents of other hosts at once; ``log`` gets those that may still run."""
    with _locked(settings, wait=True):
        _stop_far(settings, deployed(settings), 0, log)


def forget(settings: Settings, host: str) -> None:
    """Take the agents of a host out of what is deployed, and leave alone what is on the host."""
    with _locked(settings, wait=True):
        for each in deployed(settings):
            if each.runs_on == host:
                _write(settings, Change(each.name, each.tier, "remove"))


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
        except (metrics.MetricsUnreachable, AgentError):
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


def _stop_far(settings: Settings, agents: Sequence[Agent], drain_seconds: float, log: Log) -> None:
    def stop(those: list[Agent]) -> None:
        for each in those:
            try:
                lifecycle.stop(settings, each, log, drain=True, drain_seconds=drain_seconds)
            except Exception as error:  # whatever a host answers, the others are stopped
                log(f"{each.name} is not known to be stopped: {error}")

    by_host([a for a in agents if a.runs_on != LOCAL], stop)


def _stop_removed(settings: Settings, changes: Sequence[Change], log: Log) -> dict[str, str]:
    """Drain and stop the agents of other hosts that go; returns why others cannot be drained, by name."""
    gone = {change.agent for change in changes if change.rendered is None}
    left: dict[str, str] = {}

    def stop(those: list[Agent]) -> None:
        for each in those:
            try:
                lifecycle.stop(settings, each, log, must_drain=True)
            except Exception as error:
                left[each.name] = (
                    f"{each.name} cannot be drained ({error}): this is tried again; if {each.runs_on} is "
                    f"gone for good, give up what is on it: sluice hosts forget {each.runs_on}"
                )

    by_host([a for a in deployed(settings) if a.runs_on != LOCAL and a.name in gone], stop)
    return left


def _tied(changes: Sequence[Change], left: dict[str, str]) -> dict[str, str]:
    """The changes that must wait for agents that could not go: those speak TLS to the collectors."""
    names = ", ".join(sorted(left))
    return {
        change.agent: f"{change.agent} waits: it would give up TLS, which {names} still needs"
        for change in changes
        if change.rendered is not None and not change.rendered.tls
    }


def _stop_changed(settings: Settings, changes: Sequence[Change], log: Log) -> None:
    """Stop this machine's agents that change or go.

    One elsewhere that changes goes on until its new version lies beside the old one.
    """
    there = {a.name: a for a in deployed(settings) if a.runs_on == LOCAL}
    for tier in ("edge", "collector"):
        for change in changes:
            old = there.get(change.agent)
            if change.tier != tier or old is None:
                continue
            drop = change.rendered is None or change.rendered.agent.channel != old.channel
            lifecycle.stop(settings, old, log, drain=tier == "edge", must_drain=drop)


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
