"""Give up what is on a host that is gone for good."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.collection import deploy, inventory, records
from sluice.collection.agent import LOCAL, Agent
from sluice.collection.deploy_plan import AgentChange
from sluice.collection.errors import AgentError, HostUnreachable
from sluice.runtime.nearest import nearest_or_all
from sluice.runtime.settings import Settings
from sluice_hosts import placed
from sluice_hosts.agents import remnants
from sluice_hosts.hosts import load
from sluice_hosts.trust import broker, enrolment


class StillNeeded(ValueError):
    """The host is in use, or answers."""


class UnknownHost(LookupError):
    """Neither hosts.yaml nor the instance's records have a host of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no host {name!r}: {nearest_or_all(name, known, 'other hosts')}")


def forgettable(settings: Settings, name: str) -> list[Agent]:
    """The agents on a host that may be given up: deployed ones, and what collectors left there.

    Raises StillNeeded if the inventory has agents on it, a job belongs there, or it answers: drain it then.
    Raises UnknownHost if there never was such a host.
    """
    if name == LOCAL:
        raise StillNeeded("local is this machine")
    wanted = inventory.load(settings)
    on_it = [f.host for f in wanted.front_ends if f.runs_on == name]
    on_it += [c.name for c in wanted.collectors if c.runs_on == name]
    path = inventory.path_of(settings)
    if on_it:
        raise StillNeeded(f"{', '.join(on_it)} of {path} runs on {name}: take it out first")
    if there := [c.name for c in wanted.collectors if wanted.host_of(c) == name]:
        raise StillNeeded(f"{', '.join(there)} is placed on {name}: move it to another host first")
    jobs = [u for u, host in placed.read(settings).items() if host == name and not placed.is_collector(u)]
    if jobs:
        raise StillNeeded(f"{', '.join(jobs)} belongs on {name}: move it first with `sluice jobs move`")
    found = [a for a in (*deploy.agents(settings), *remnants.known(settings)) if a.runs_on == name]
    if not found and name not in (known := _known(settings)):
        raise UnknownHost(name, known)
    try:
        if found:
            enrolment.link(settings, enrolment.known(settings, name)).run("true")
    except (HostUnreachable, AgentError):
        return found
    if found:
        raise StillNeeded(f"{name} answers: the DAG `collection` drains and stops what runs there")
    return found


def forget(settings: Settings, host: str) -> None:
    """Take the agents of a host out of what is deployed, and leave alone what is on the host."""
    with records.locked(settings, wait=True):
        for each in deploy.agents(settings):
            if each.runs_on == host:
                records.write(settings, AgentChange(each.name, each.tier, "remove"))
        for each in remnants.known(settings):
            if each.runs_on == host:
                remnants.remove(settings, each)


def _known(settings: Settings) -> set[str]:
    """The other hosts: those of hosts.yaml, and those whose enrolment began once."""
    enrolled = {path.name for path in enrolment.folder(settings).glob("*") if path.is_dir()}
    return {*load(settings), *enrolled} - {LOCAL}


def dismiss(settings: Settings, name: str) -> bool:
    """Take the host's user in Kafka away; returns whether it had one. Raises BrokerError.

    With the last one the broker no longer listens to other hosts, from its next start on.
    """
    if name not in broker.admitted(settings):
        return False
    from sluice_hosts.trust import rights

    with records.locked(settings, wait=True):
        rights.dismiss(settings, name)
    broker.listen(settings, load(settings)[LOCAL].address)
    return True
