"""Kafka's users of other hosts, given the rights that their hosts need now."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from sluice.collection.deploy_plan import deployed
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.agents import remnants
from sluice_hosts.trust import broker

Log = Callable[[str], None]

#: How long after a failure Kafka is not asked again by the supervision, which calls every two seconds.
PAUSE_SECONDS = 30.0
#: How often Kafka is asked whether it still knows the users: its data may have been lost, or be a backup's.
LOOK_SECONDS = 60.0
_failed_at: dict[Path, float] = {}
_looked_at: dict[Path, float] = {}


def grant_rights(settings: Settings, log: Log) -> None:
    """Have Kafka know the users of other hosts, with the rights that their roles need.

    A failure is only logged: the supervision tries again, and lines wait in the collectors' channels.
    """
    if not broker.admitted(settings) or "kafka" in settings.external:  # others' users are not ours to make
        return
    from sluice_hosts.trust import rights

    if time.monotonic() - _failed_at.get(settings.home, -PAUSE_SECONDS) < PAUSE_SECONDS:
        return
    try:
        if time.monotonic() - _looked_at.get(settings.home, -LOOK_SECONDS) >= LOOK_SECONDS:
            for host in rights.unknown(settings):
                broker.forgotten(settings, host)
                log(f"{broker.user(host)}: Kafka has forgotten it, and is told again")
            _looked_at[settings.home] = time.monotonic()
        for host in rights.grant(settings, _wanted(settings)):
            log(f"{broker.user(host)}: Kafka knows it, with the rights that {host} needs")
    except (broker.BrokerError, hosts.HostsError) as error:
        _failed_at[settings.home] = time.monotonic()
        log(str(error))


def _wanted(settings: Settings) -> dict[str, set[str]]:
    """The rights each host with a user needs now; hosts that need none are absent. Raises HostsError."""
    topics = {a.topic for a in (*deployed(settings), *remnants.known(settings)) if a.tier == "collector"}
    there, found = hosts.load(settings), {}
    for name in broker.admitted(settings):
        roles = there[name].roles if name in there else ()
        wanted = (topics if "collector" in roles else set()) | ({broker.ALL} if "jobs" in roles else set())
        if wanted:
            found[name] = wanted
    return found
