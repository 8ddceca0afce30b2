"""Several emulated hosts as hosts of an instance: listed in its ``hosts.yaml``, switched on, enrolled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from sluice.collection.agent import LOCAL
from sluice.runtime.files import write_whole
from sluice.runtime.settings import LOOPBACK, Settings
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.hosts import Role
from sluice_hosts.trust import enrolment

#: Who logs in; an emulated host lets in whoever has the key.
USER = "anybody"
SLOTS = 8

Fleet = Mapping[str, EmulatedHost]
Roles = Mapping[str, tuple[Role, ...]]


def build(folder: Path, roles: Roles) -> dict[str, EmulatedHost]:
    """Hosts of these names below a folder, at 127.0.1.1 and the next addresses; they are off."""
    fleet = {
        name: EmulatedHost(folder / name, f"127.0.1.{number}", apart=True)
        for number, name in enumerate(roles, 1)
    }
    for host in fleet.values():
        (host.home / "log").mkdir(parents=True)
    return fleet


def switch_on(settings: Settings, fleet: Fleet, roles: Roles) -> None:
    """Make the fleet all the hosts of the instance; each takes the key that the instance has for it."""
    list_hosts(settings, fleet, roles)
    for name, host in fleet.items():
        host.authorize(enrolment.public_key(settings, hosts.load(settings)[name]))
        host.switch_on()
    list_hosts(settings, fleet, roles)


def enrol(settings: Settings, fleet: Fleet) -> None:
    """Enrol them. Raises EnrolError, HostUnreachable."""
    for name, host in fleet.items():
        enrolment.enrol(settings, hosts.load(settings)[name], host.fingerprint())


def list_hosts(settings: Settings, fleet: Fleet, roles: Roles) -> None:
    """Make the hosts of these roles all the hosts of the instance, beside this machine."""
    entries: list[dict[str, object]] = [{"name": LOCAL, "address": LOOPBACK}]
    for name in roles:
        host = fleet[name]
        # Before it listens a host has no port, and the list must have one.
        access = {"user": USER, "port": host.port or 1}
        own: dict[str, object] = {"slots": SLOTS, "roles": list(roles[name])}
        if "jobs" in roles[name]:  # this machine's own checkout is there, too
            own["release"] = str(settings.root)
        entries.append({"name": name, "address": host.address, "ssh": access, **own})
    write_whole(settings.home / hosts.FILE, yaml.safe_dump(entries))
