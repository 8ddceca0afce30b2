"""One emulated host."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import asyncssh
import psutil

from sluice.runtime import inherited
from sluice.runtime.jvm import java
from sluice.runtime.settings import ROOT
from sluice_hosts.emulated import power
from sluice_hosts.emulated.server import HOST_KEY

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
_SERVER = "sluice_hosts.emulated.server"
_POLL = 0.05
#: Java as it is, but an agent's counters are asked for at the host's own 127.0.0.1.
_JAVA = """case ${1:-} in
@*) sed "s/^\\(-Dflume.monitoring.host=\\)127.0.0.1$/\\1$EMULATED_LOOPBACK/;HEAP" "${1#@}" >java.args
  exec JAVA @java.args ;;
*) exec JAVA "$@" ;;
esac"""


class HostDied(RuntimeError):
    """The SSH server of an emulated host does not listen."""


@dataclass
class EmulatedHost:
    """A machine that can be switched on and off, cut off, and frozen.

    sftp: whether its server gives access to files. apart: whether its 127.0.0.1 is its own (see `server`).
    """

    home: Path
    address: str
    port: int = 0
    sftp: bool = True
    apart: bool = False
    _server: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def authorize(self, public_key: str) -> None:
        """Let the key log in, from the next start of the server on."""
        keys = self.home / ".ssh" / "authorized_keys"
        keys.parent.mkdir(parents=True, exist_ok=True)
        keys.write_text(public_key + "\n")

    def fingerprint(self) -> str:
        """The fingerprint of the host's key, as one reads it on the machine itself."""
        return asyncssh.read_private_key(self.home / HOST_KEY).get_fingerprint()

    def program(self, name: str, script: str) -> None:
        """Give the host a program, which comes before one of this machine."""
        path = self.home / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def install_java(self, heap: str = "") -> None:
        """Give the host this machine's Java, for agents of a host that is ``apart``.

        heap: the size of an agent's, instead of its own. Such an agent is compiled by C1 alone, so one
        machine can start many.
        """
        smaller = f"s/^-Xmx.*/-Xmx{heap}\\n-XX:TieredStopAtLevel=1/" if heap else ""
        self.program("java", _JAVA.replace("HEAP", smaller).replace("JAVA", str(shutil.which(java()))))

    def switch_on(self) -> None:
        """Start the SSH server, at its former port if it had one. Raises HostDied.

        The host loses its power when this process ends.
        """
        (self.home / "port").unlink(missing_ok=True)
        if not (self.home / ".ssh" / "authorized_keys").exists():
            key = asyncssh.generate_private_key("ssh-ed25519")
            self.authorize(key.export_public_key("openssh").decode().strip())
        arguments = (str(self.home), self.address, str(self.port), str(os.getpid()))
        self._server = subprocess.Popen(
            [
                *(sys.executable, "-m", _SERVER, *arguments),
                *([] if self.sftp else ["no-sftp"]),
                *(["apart"] if self.apart else []),
            ],
            cwd=ROOT,
            env={**inherited.variables(), power.HOME: str(self.home)},
            start_new_session=True,  # Ctrl-C is for its parent
        )
        deadline = time.monotonic() + READY_SECONDS
        while not (self.home / "port").exists():
            if self._server.poll() is not None:
                raise HostDied(f"the SSH server of the emulated host {self.home} died")
            if time.monotonic() > deadline:
                raise HostDied(f"{self.home}: not listening at {self.address} after {READY_SECONDS:g} s")
            time.sleep(_POLL)
        self.port = int((self.home / "port").read_text())

    def switch_off(self) -> None:
        """kill -9 every process of the host at once, as a loss of power does."""
        power.switch_off(self.home)
        if self._server is not None:
            self._server.wait(STOP_SECONDS)
            self._server = None

    def cut_off(self) -> None:
        """The host answers nobody; what runs on it goes on."""
        self._signal(signal.SIGSTOP)

    def reconnect(self) -> None:
        self._signal(signal.SIGCONT)

    def freeze(self) -> None:
        """Everything on the host stands still. Its connections stay open, and nobody answers on them."""
        self._must_be_on()
        power.freeze(self.home)

    def thaw(self) -> None:
        """Everything goes on where it stood."""
        self._must_be_on()
        power.thaw(self.home)

    def processes(self, name: str = "") -> list[psutil.Process]:
        """The host's living processes; with a name, only of programs that are called so."""
        return power.processes(self.home, name)

    def _signal(self, number: signal.Signals) -> None:
        os.kill(self._must_be_on().pid, number)

    def _must_be_on(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            raise HostDied(f"the emulated host {self.home} is off")
        return self._server
