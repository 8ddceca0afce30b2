"""An emulated host whose SSH server is OpenSSH's own, where this machine has one."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import psutil

from sluice_hosts.emulated import power
from sluice_hosts.emulated.host import STOP_SECONDS, EmulatedHost
from sluice_hosts.emulated.server import HOST_KEY
from sluice_lab.ports import free_ports
from sluice_lab.waiting import until

#: sshd must be started by its whole path; it is not in every user's PATH.
SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
#: sshd run by root wants this folder; a package's service makes it when it starts.
PRIVSEP = Path("/run/sshd")
CONFIGURATION = """
ListenAddress {address}:{port}
HostKey {home}/{key}
AuthorizedKeysFile {home}/.ssh/authorized_keys
AuthenticationMethods publickey
PermitRootLogin prohibit-password
PidFile none
UsePAM no
StrictModes no
{sftp}
SetEnv HOME={home} PATH={home}/bin:{path} {mark}={home}
"""


@dataclass
class OpenSshHost(EmulatedHost):
    """Runs commands as whoever runs the tests; `user` is the name to log in with."""

    user: str = getpass.getuser()

    def switch_on(self) -> None:
        key = self.home / HOST_KEY
        if not key.exists():
            asyncssh.generate_private_key("ssh-ed25519").write_private_key(str(key))
            key.chmod(0o600)
        self.port = self.port or free_ports(1, self.address)[0]
        configuration = self.home / "sshd_config"
        values = {"address": self.address, "port": self.port, "home": self.home, "key": HOST_KEY}
        values["sftp"] = "Subsystem sftp internal-sftp" if self.sftp else ""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        configuration.write_text(CONFIGURATION.format(**values, path=path, mark=power.HOME))
        if os.geteuid() == 0:
            PRIVSEP.mkdir(mode=0o755, exist_ok=True)
        self._server = subprocess.Popen(
            [str(SSHD), "-D", "-E", str(self.home / "sshd.log"), "-f", str(configuration)],
            env={**os.environ, power.HOME: str(self.home)},
            start_new_session=True,
        )
        until(self._listens, what=(self.home / "sshd.log").read_text)

    def switch_off(self) -> None:
        servers = self._servers()
        for each in servers:  # their environments are overwritten by what `ps` shows
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(servers, STOP_SECONDS)
        super().switch_off()

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((self.address, self.port)) == 0

    def _servers(self) -> list[psutil.Process]:
        """The server that listens, and one for each connection."""
        if self._server is None or self._server.poll() is not None:
            return []
        listens, found = psutil.Process(self._server.pid), list[psutil.Process]()
        for each in (listens, *listens.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # a connection's server ends with the connection
                if each == listens or each.name() == "sshd":
                    found.append(each)
        return found

    def _signal(self, number: signal.Signals) -> None:
        for each in self._servers():
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)
