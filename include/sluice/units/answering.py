"""Whether anybody answers at a host, apart from whether it lets the platform in."""

from __future__ import annotations

import contextlib
import socket

from sluice.collection import enrolment
from sluice.collection.hosts import Host

SECONDS = 3.0
_GREETING = b"SSH-"


def answers(host: Host) -> bool:
    """Whether an SSH server greets at the host's address.

    It is asked where the connection failed, and as long as nobody answered. The connection itself is not made
    again for a while then, and a host that is back, or only refuses the key, must not count as silent. A
    connection alone proves nothing: the kernel takes it for a server that hangs.
    """
    with contextlib.suppress(OSError):
        where = (host.address, enrolment.port(host))
        with socket.create_connection(where, SECONDS) as connection:
            connection.settimeout(SECONDS)
            return connection.recv(len(_GREETING)) == _GREETING
    return False
