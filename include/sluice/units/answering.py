"""Whether anybody answers at a host, apart from whether it lets the platform in."""

from __future__ import annotations

import contextlib

from sluice.collection import enrolment, ssh
from sluice.collection.hosts import Host


def answers(host: Host) -> bool:
    """Whether an SSH server greets at the host's address.

    It is asked where the connection failed, and as long as nobody answered. The connection itself is not made
    again for a while then, and a host that is back, or only refuses the key, must not count as silent. A
    connection alone proves nothing: the kernel takes it for a server that hangs.
    """
    with contextlib.suppress(OSError):
        return ssh.greets(host.address, enrolment.port(host))
    return False
