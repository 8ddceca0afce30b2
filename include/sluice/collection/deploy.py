"""Deploy the agents that the inventory asks for.

One lock for each instance keeps a deployment and the supervision from changing the same agent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sluice.collection import ingest_topics, lifecycle, metrics
from sluice.collection.agent import Agent
from sluice.collection.at_once import by_machine, reason
from sluice.collection.deploy_plan import AgentChange, deployed, plan
from sluice.collection.errors import AgentError, HostUnreachable
from sluice.collection.hosting import hosting, machine_of
from sluice.collection.lifecycle import DRAIN_SECONDS, Log
from sluice.collection.records import DeployBusy, DeployError, locked, speaks_tls, write
from sluice.collection.render import Rendered
from sluice.collection.starting import start_all
from sluice.runtime.settings import Settings

_POLL = 0.3
#: So long the lock stays free between two edges of a machine; the agents are looked at more often.
FREE_SECONDS = 5.0


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


def apply(settings: Settings, log: Log = print) -> list[AgentChange]:
    """Deploy what the inventory changes, as it is when nobody else deploys or moves; return these changes.

    An unchanged agent is neither stopped nor written. The order loses nothing and never has two agents on one
    port: edges that change or go are drained and stopped while the old collectors still take their lines;
    collectors that go are drained; collectors that change are stopped (their channel is on disk); collectors
    that move take over from themselves (`Hosting.relocate`); then everything starts, collectors first. What a
    host that does not answer should run is brought there by `ensure` when it answers.

    An agent on another host that goes and cannot be drained is left out, and so is a collector that cannot
    move, and the others are deployed. Then, and if an agent does not start, DeployError is raised at the end.
    Raises inventory.InventoryError before anything else if the inventory cannot be deployed.
    """
    ingest_topics.make_topics(settings, _changes(settings), log)  # without the lock: Kafka may be away
    with locked(settings, wait=True):
        todo = _changes(settings)  # a collector may have moved meanwhile
        hosting().grant_rights(settings, log)
        waiting = _prepare(settings, todo, log)
        todo = _without(todo, waiting)
        left = _stop_removed(settings, todo, "edge", log)
        if left:
            left |= _tied(todo, left)
        left |= waiting
        try:
            _stop_changed(settings, _without(todo, left), "edge", log)
            left |= _stop_removed(settings, _without(todo, left), "collector", log)
            _stop_changed(settings, _without(todo, left), "collector", log)
        except AgentError:
            start_all(settings, log)  # as they were
            raise
        left |= _relocate(settings, _without(todo, left), log)
        todo = _without(todo, left)
        for change in todo:
            write(settings, change)
            log(f"{change.agent}: {change.action}d")
        hosting().grant_rights(settings, log)
        _, failed = start_all(settings, log, check=True)
        hosting().drain_left(settings, log)
    if left or failed:
        raise DeployError("; ".join([*left.values(), *failed.values()]))
    return todo


def ensure(settings: Settings, log: Log = print, failed: dict[str, str] | None = None) -> list[str]:
    """Start every deployed agent that does not run; return the names of those that then work.

    What a collector left on another host is drained.

    An agent that cannot start is named to ``log``, and in ``failed`` with the reason, and tried again at the
    next call. This does nothing while a deployment is at work, because that has stopped agents on purpose.
    """
    try:
        with locked(settings, wait=False):
            hosting().grant_rights(settings, log)
            started, wrong = start_all(settings, log)
            hosting().drain_left(settings, log)
    except DeployBusy:
        return []
    for why in wrong.values():
        log(why)
    if failed is not None:
        failed |= wrong
    return started


def stop(settings: Settings, agent: Agent, drain_seconds: float = DRAIN_SECONDS, log: Log = print) -> bool:
    """Stop one agent, an edge drained; return whether its channel was seen empty.

    Nothing is lost either way.
    """
    with locked(settings, wait=True):
        return lifecycle.stop(settings, agent, log, drain=agent.tier == "edge", drain_seconds=drain_seconds)


def stop_all(settings: Settings, drain_seconds: float = DRAIN_SECONDS, log: Log = print) -> None:
    """Stop every agent: edges, drained; then collectors, and what they left behind."""
    with locked(settings, wait=True):
        agents = deployed(settings)
        _stop_each(settings, [a for a in agents if a.tier == "edge"], log, drain_seconds)
        _stop_each(settings, [a for a in agents if a.tier == "collector"], log)
        _stop_each(settings, hosting().left_behind(settings), log)


def stop_far(settings: Settings, log: Log = print) -> None:
    """Stop the agents of other machines at once; ``log`` gets those that may still run."""
    with locked(settings, wait=True):
        agents = [*deployed(settings), *hosting().left_behind(settings)]
        _stop_each(settings, [a for a in agents if not machine_of(settings, a).ours], log)


def send_again(settings: Settings, to: Mapping[str, Mapping[str, int]], log: Log = print) -> dict[str, str]:
    """Have deployed edges read files again: {edge: {name in the records: where a line begins}}.

    Lines that come twice are recognised by their identity. Returns why some could not, by their names. An
    edge that was given up meanwhile is left out. Machines send at the same time, each one edge; in between
    the lock is free for a while, so that the supervision can start agents that died.
    """
    failed: dict[str, str] = {}

    def send(those: list[Agent]) -> None:
        for each in those:
            try:
                lifecycle.send_again(settings, each, to[each.name], log)
            except Exception as error:
                failed[each.name] = reason(each, error)
                log(f"{each.name} cannot send again now: {failed[each.name]}")

    left = {each.name for each in deployed(settings) if each.tier == "edge" and each.name in to}
    while left:
        with locked(settings, wait=True):
            there = [each for each in deployed(settings) if each.tier == "edge" and each.name in left]
            first = {each.runs_on: each for each in reversed(there)}
            by_machine(first.values(), send)
        left = {each.name for each in there} - {each.name for each in first.values()}
        if left:
            time.sleep(FREE_SECONDS)
    return failed


def drained(settings: Settings) -> bool:
    """Whether every file has been read to its end and every channel is empty: all is in Kafka.

    TAILDIR writes its position once a second, so this lags by that much. A last line without newline is
    not waited for.
    """
    if hosting().left_behind(settings):
        return False
    # Edges first: what leaves them between two readings is then seen in a collector.
    for each in reversed(deployed(settings)):
        try:
            if (
                not machine_of(settings, each).all_read(each)
                or not lifecycle.counters(settings, each).drained
            ):
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


def _changes(settings: Settings) -> list[AgentChange]:
    """What is to be done. Raises inventory.InventoryError, and DeployError if a log directory is no good."""
    todo = [change for change in plan(settings) if change.action != "unchanged"]
    for change in todo:
        agent = change.rendered.agent if change.rendered else None
        if agent and (refused := machine_of(settings, agent).refuses(agent)):
            raise DeployError(f"{change.agent}: {refused}")
    return todo


def _stop_each(settings: Settings, agents: Sequence[Agent], log: Log, drain_seconds: float = 0) -> None:
    """Stop agents, on all machines at the same time; ``log`` gets those that may still run."""

    def stop(those: list[Agent]) -> None:
        for each in those:
            try:
                lifecycle.stop(settings, each, log, drain=drain_seconds > 0, drain_seconds=drain_seconds)
            except Exception as error:
                log(f"{each.name} is not known to be stopped: {reason(each, error)}")

    by_machine(agents, stop)


def _without(changes: Sequence[AgentChange], left: Iterable[str]) -> list[AgentChange]:
    return [change for change in changes if change.agent not in left]


def _stop_removed(settings: Settings, changes: Sequence[AgentChange], tier: str, log: Log) -> dict[str, str]:
    """Drain and stop the agents that go, where versions lie side by side; why others cannot be, by name."""
    gone = {change.agent for change in changes if change.rendered is None and change.tier == tier}
    agents = [a for a in deployed(settings) if a.name in gone and machine_of(settings, a).versioned]
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

    by_machine(agents, stop)
    return left


def _tied(changes: Sequence[AgentChange], left: dict[str, str]) -> dict[str, str]:
    """The changes that must wait for agents that could not go: those speak TLS to the collectors."""
    names = ", ".join(sorted(left))
    return {
        change.agent: f"{change.agent} waits: it would give up TLS, which {names} still needs"
        for change in changes
        if change.rendered is not None and not change.rendered.tls
    }


def _stop_changed(settings: Settings, changes: Sequence[AgentChange], tier: str, log: Log) -> None:
    """Stop the agents that change or go, where a new version overwrites the old one.

    Elsewhere one that changes goes on until its new version lies beside the old one.
    """
    there = {a.name: a for a in deployed(settings) if not machine_of(settings, a).versioned}
    for change in changes:
        old = there.get(change.agent)
        if change.tier != tier or old is None or _moves(change, old):
            continue
        drop = change.rendered is None or change.rendered.agent.channel != old.channel
        lifecycle.stop(settings, old, log, drain=tier == "edge", must_drain=drop)


def _moves(change: AgentChange, old: Agent) -> bool:
    return change.rendered is not None and change.rendered.agent.runs_on != old.runs_on


def _moving(
    settings: Settings, changes: Sequence[AgentChange]
) -> Iterator[tuple[AgentChange, Rendered, Agent]]:
    """The changes that take a collector to another host: with what it is to be there, and as it is now."""
    there = {a.name: a for a in deployed(settings)}
    for change in changes:
        old = there.get(change.agent)
        if old is not None and change.rendered is not None and _moves(change, old):
            yield change, change.rendered, old


def _stays(old: Agent, error: Exception) -> str:
    return f"{old.name} stays on {old.runs_on}; this is tried again: {error}"


def _prepare(settings: Settings, changes: Sequence[AgentChange], log: Log) -> dict[str, str]:
    """Copy to new hosts what moves there, while all goes on; returns why collectors must stay, by name.

    Raises DeployError if one must stay that would not understand the edges any more.
    """
    left: dict[str, str] = {}
    for _, rendered, old in _moving(settings, changes):
        try:
            hosting().prepare(settings, rendered, log)
        except (AgentError, HostUnreachable) as error:
            left[old.name] = _stays(old, error)
            if rendered.tls and not speaks_tls(settings, old):
                raise DeployError(left[old.name]) from error
    return left


def _relocate(settings: Settings, changes: Sequence[AgentChange], log: Log) -> dict[str, str]:
    """Take collectors to the hosts where they are to run; returns why others cannot go, by name."""
    left: dict[str, str] = {}
    for change, _, old in _moving(settings, changes):
        try:
            hosting().relocate(settings, old, change, log)
        except (AgentError, HostUnreachable) as error:
            left[old.name] = _stays(old, error)
    return left
