"""Jobs that run on a host where nobody asked for them: what a host had while it was silent.

They are harmless beside their successors. A file of the archive is claimed by a rename that only one of them
wins. A topic is counted by the driver that has its lock in PostgreSQL, and a commit's number is taken once.
But they cost time, and what is not needed is stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError, HostUnreachable
from sluice.collection.machine import ProcessState
from sluice.runtime import successor
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.hosts import Host
from sluice_hosts.jobs import far, places
from sluice_hosts.jobs.far import FarJob
from sluice_hosts.trust import enrolment

Log = Callable[[str], object]


def stop(settings: Settings, log: Log) -> dict[str, str]:
    """Stop those whose host answers; returns the other hosts, with what is wrong. Raises HostsError."""
    faults: dict[str, str] = {}
    for host in _hosts(settings):
        try:
            for member in found(settings, host):
                FarJob(settings, host, member).stop()
                log(f"{member}: stopped on {host.name}, where it was left")
        except (HostUnreachable, AgentError) as error:  # asked again
            faults[host.name] = str(error)
    return faults


def found(settings: Settings, host: Host) -> list[str]:
    """The members that run on the host, although nobody asks for them. Raises as `FarJob` does."""
    alive = [name for name, status in far.there(settings, host).items() if status.state == ProcessState.ALIVE]
    return [name for name in alive if host.name not in _asked_for(settings, name)]


def _asked_for(settings: Settings, member: str) -> set[str | None]:
    """Where the member and its successor are to run. Includes a successor that is being promoted."""
    return {places.runs_on(settings, name) for name in (successor.name_of(member), member)}


def _hosts(settings: Settings) -> Iterator[Host]:
    """The hosts that have Sluice, also those that have lost the role."""
    for host in hosts.load(settings).values():
        if host.name != LOCAL and enrolment.release_of(settings, host):
            yield host
