"""PostgreSQL for jobs on other hosts: TLS with the instance's authority, for the hosts' addresses alone."""

from __future__ import annotations

from sluice.collection.agent import LOCAL
from sluice.runtime.settings import Settings
from sluice.storage import listener
from sluice.storage.listener import DatabaseListener
from sluice_hosts.hosts import is_address, load
from sluice_hosts.trust import enrolment


def listen(settings: Settings, without: str = LOCAL) -> None:
    """Have PostgreSQL listen to the enrolled hosts with the role `jobs`, from its next start on.

    without: a host that is no more. Raises HostsError.
    """
    there = load(settings)
    clients = sorted(
        f"{host.address}/32" if is_address(host.address) else host.address
        for host in there.values()
        if host.name not in (LOCAL, without) and "jobs" in host.roles and enrolment.release_of(settings, host)
    )
    if not clients or "postgres" in settings.external:
        listener.write(settings.home, None)
        return
    listener.write(settings.home, DatabaseListener(there[LOCAL].address, clients))


def from_elsewhere(settings: Settings, certificate: str) -> Settings:
    """The settings of a job on another host. certificate: where it has that of the authority."""
    found = listener.read(settings.home)
    if found is None:
        return settings
    reached = {"host": found.address, "root_certificate": certificate}
    return settings.model_copy(update={"postgres": settings.postgres.model_copy(update=reached)})
