"""The SSH server of an emulated host.

    python -m sluice_hosts.emulated.server HOME ADDRESS PORT PARENT [no-sftp] [apart]

It takes the keys in ``HOME/.ssh/authorized_keys`` and runs commands with ``HOME`` as the account's home. Port
0 is any; the server writes the one that it got to ``HOME/port``. When the process PARENT is gone, the host
loses its power. With ``apart`` the host's 127.0.0.1 is its own: what is asked for there over SSH is asked for
at ADDRESS, so the same port may be taken on several hosts.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import asyncssh

from sluice.runtime.files import write_whole
from sluice_hosts.emulated.power import HOME, LOOPBACK, switch_off

HOST_KEY = "host_key"
_LOOK_SECONDS = 1.0


class _Server(asyncssh.SSHServer):
    """Forwards to the host's 127.0.0.1, which is ``loopback``."""

    def __init__(self, loopback: str) -> None:
        self._loopback = loopback

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[Any]:  # a forwarder, as asyncssh's text says; its types do not have that
        return self._connection.forward_connection(self._loopback, dest_port)


async def _serve(home: Path, address: str, port: int, parent: int, *, sftp: bool, apart: bool) -> None:
    loopback = address if apart else "127.0.0.1"

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_shell(
            process.command or "exit 0",
            cwd=home,
            env={
                "HOME": str(home),
                "PATH": f"{home}/bin:{os.environ['PATH']}",
                HOME: str(home),
                LOOPBACK: loopback,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await child.communicate()
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(child.returncode or 0)

    server = await asyncssh.listen(
        address,
        port,
        server_factory=lambda: _Server(loopback),
        server_host_keys=[str(_host_key(home))],
        authorized_client_keys=str(home / ".ssh" / "authorized_keys"),
        process_factory=run,
        sftp_factory=sftp,
        encoding=None,
        reuse_address=True,
    )
    write_whole(home / "port", str(server.get_port()))
    while os.getppid() == parent:
        await asyncio.sleep(_LOOK_SECONDS)
    switch_off(home)


def _host_key(home: Path) -> Path:
    key = home / HOST_KEY
    if not key.exists():
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
    return key


if __name__ == "__main__":
    _home, _address, _port, _parent, *_flags = sys.argv[1:]
    asyncio.run(
        _serve(
            Path(_home),
            _address,
            int(_port),
            int(_parent),
            sftp="no-sftp" not in _flags,
            apart="apart" in _flags,
        )
    )
