"""An emulated host: an SSH server on an address of its own, with a home of its own.

    python -m tests.collection.ssh_host HOME ADDRESS PORT [no-sftp] [apart]

It takes the keys in ``HOME/.ssh/authorized_keys`` and runs commands with ``HOME`` as the account's home. Port
0 is any; the server writes the one that it got to ``HOME/port``. With ``apart`` the host's 127.0.0.1 is its
own: what is asked for there over SSH is asked for at ADDRESS, so the same port may be taken on several hosts.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
import psutil

from sluice.runtime.settings import ROOT, Settings

READY_SECONDS = 60.0


class _Server(asyncssh.SSHServer):
    """Forwards to the host's 127.0.0.1, which is ``loopback``."""

    def __init__(self, loopback: str) -> None:
        self._loopback = loopback

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> Awaitable[asyncssh.SSHTCPSession[bytes]]:
        return self._connection.forward_connection(self._loopback, dest_port)


async def _serve(home: Path, address: str, port: int, sftp: bool, apart: bool) -> None:
    loopback = address if apart else "127.0.0.1"

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        child = await asyncio.create_subprocess_shell(
            process.command or "exit 0",
            cwd=home,
            env={
                "HOME": str(home),
                "PATH": f"{home}/bin:{os.environ['PATH']}",
                "EMULATED_HOST": str(home),
                "EMULATED_LOOPBACK": loopback,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await child.communicate()
        process.stdout.write(out)
        process.stderr.write(err)
        process.exit(child.returncode or 0)

    key = home / "host_key"
    if not key.exists():
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
    server = await asyncssh.listen(
        address,
        port,
        server_factory=lambda: _Server(loopback),
        server_host_keys=[str(key)],
        authorized_client_keys=str(home / ".ssh" / "authorized_keys"),
        process_factory=run,
        sftp_factory=sftp,
        encoding=None,
        reuse_address=True,
    )
    (home / "port.new").write_text(str(server.get_port()))
    (home / "port.new").replace(home / "port")
    await server.wait_closed()


@dataclass
class EmulatedHost:
    """A machine that can be switched on and off, and cut off."""

    home: Path
    address: str
    port: int = 0
    sftp: bool = True
    apart: bool = False
    _server: subprocess.Popen[bytes] | None = field(default=None)

    def authorize(self, public_key: str) -> None:
        """Let the key log in, from the next start of the server on."""
        keys = self.home / ".ssh" / "authorized_keys"
        keys.parent.mkdir(parents=True, exist_ok=True)
        keys.write_text(public_key + "\n")

    def program(self, name: str, script: str) -> None:
        """Give the host a program, which comes before one of this machine."""
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def switch_on(self) -> None:
        """Start the SSH server, at its former port if it had one."""
        (self.home / "port").unlink(missing_ok=True)
        if not (self.home / ".ssh" / "authorized_keys").exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            self.authorize(key.export_public_key("openssh").decode().strip())
        self._server = subprocess.Popen(
            [
                *(sys.executable, "-m", __spec__.name, str(self.home), self.address, str(self.port)),
                *([] if self.sftp else ["no-sftp"]),
                *(["apart"] if self.apart else []),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'include'}", "EMULATED_HOST": str(self.home)},
        )
        deadline = time.monotonic() + READY_SECONDS
        while not (self.home / "port").exists():
            assert self._server.poll() is None, "the SSH server of an emulated host died"
            assert time.monotonic() < deadline, "the SSH server of an emulated host does not listen"
            time.sleep(0.05)
        self.port = int((self.home / "port").read_text())

    def switch_off(self) -> None:
        """kill -9 every process of the host at once, as a loss of power does."""
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        if self._server is not None:
            self._server.wait(30)
            self._server = None

    def cut_off(self) -> None:
        """The host answers nobody; what runs on it goes on."""
        assert self._server is not None
        os.kill(self._server.pid, signal.SIGSTOP)

    def reconnect(self) -> None:
        assert self._server is not None
        os.kill(self._server.pid, signal.SIGCONT)

    def processes(self, name: str = "") -> list[psutil.Process]:
        """The host's living processes; with a name, only of programs that are called so."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                own = process.environ().get("EMULATED_HOST") == str(self.home)
                if own and process.status() != psutil.STATUS_ZOMBIE and process.name().startswith(name):
                    found.append(process)
        return found


@contextmanager
def emulated(settings: Settings, home: Path) -> Iterator[EmulatedHost]:
    """Host ``h1`` of the instance, switched on, which takes the instance's key; not yet enrolled."""
    from sluice.collection import enrolment, hosts

    home.mkdir()
    made = EmulatedHost(home, "127.0.1.1")
    entry = (
        "- {name: local, address: 127.0.0.1}\n- {name: h1, address: 127.0.1.1, ssh: {user: me, port: %d}}\n"
    )
    (settings.home / hosts.FILE).write_text(entry % 1)
    made.authorize(enrolment.public_key(settings, hosts.load(settings)["h1"]))
    try:
        made.switch_on()
        (settings.home / hosts.FILE).write_text(entry % made.port)
        yield made
    finally:
        made.switch_off()


if __name__ == "__main__":
    _flags = ("no-sftp" not in sys.argv, "apart" in sys.argv)
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *_flags))
