"""Whether a port is free, and who has it if it is not."""

from __future__ import annotations

import contextlib
import errno
import socket
import time

import psutil

from sluice.runtime.settings import Settings

POLL_SECONDS = 0.5
DYING_SECONDS = 15.0


class PortInUse(RuntimeError):
    """Another program listens on a port of the instance."""


class NoSuchAddress(ValueError):
    """This machine does not have the address at which a daemon is to listen."""


def require_free(settings: Settings, name: str, whose: str, patience: float = DYING_SECONDS) -> None:
    """Raises PortInUse if the port of that name is taken, and NoSuchAddress.

    ``whose``: the daemon that wants it, or what else does. A taken port without a process belonged to one
    that was just killed, so wait until it is released, for ``patience`` seconds at most.
    """
    port = settings.port(name)
    deadline = time.monotonic() + patience
    address = settings.listens(whose)
    setting = "hadoop_host" if address == settings.hadoop_host else "bind_host"
    while not _free(address, port, setting):
        listener = _listener(port)
        if listener is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            continue
        raise PortInUse(
            f"port {port} ({name}, for {whose}) is taken by {listener or 'another program'}: stop "
            f"that, or give instance {settings.instance!r} another base (port_bases in settings.yaml, or "
            "SLUICE_PORT_BASE)"
        )


def _free(host: str, port: int, setting: str) -> bool:
    """Whether nothing listens there. Raises NoSuchAddress, which names the setting."""
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise NoSuchAddress(
                    f"{setting} = {host!r}: this machine has no such address; give one of those that "
                    "`ip address` shows"
                ) from error
            return False
    return True


def _listener(port: int) -> str | None:
    """The process that listens on the port; None if this user sees none."""
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.pid:
            try:
                process = psutil.Process(connection.pid)
                return f"pid {process.pid} ({process.name()})"
            except psutil.Error:
                return None
    return None
