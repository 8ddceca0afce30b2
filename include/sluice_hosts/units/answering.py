"""Whether anybody answers at a host, apart from whether it lets the platform in."""

from __future__ import annotations

import contextlib

from sluice.runtime.settings import Settings
from sluice_hosts.errors import EnrolError
from sluice_hosts.hosts import Host
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment


def answers(settings: Settings, host: Host) -> bool:
    """Whether an SSH server greets at the host's address.

    It is asked where the connection failed, and as long as nobody answered. The connection itself is not made
    again for a while then, and a host that is back, or only refuses the key, must not count as silent. A
    connection alone proves nothing: the kernel takes it for a server that hangs.
    """
    with contextlib.suppress(OSError, EnrolError):
        how = enrolment.access(settings, host)
        return ssh.greets(how.address, how.port)
    return False
